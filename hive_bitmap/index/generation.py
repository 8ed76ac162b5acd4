"""Generations: the folders that an index table or partition points at, one published state each.

A folder is new for every build and never changes after it is published. What a build that died left behind, and what
no metastore entry references any more, is told by its name, its manifest and its markers, and deleted by a later build
or by `clean`. A marker holds the definition of the index, so that a folder whose table is gone is still known as ours.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from typing import Any
from urllib.parse import quote

from hive_bitmap import stores
from hive_bitmap.index.checksums import FOLDER
from hive_bitmap.index.definition import Definition, from_properties, to_properties
from hive_bitmap.parallel import each

MARKER = "_built_by"  # who builds, or built, this generation, since when, and of which index
RETIRED = "_retired"  # when it was replaced
GRACE_SECONDS = 24 * 3600  # readers in flight may still hold a plan of a generation that is this young
DELETIONS = 5  # tries at a folder that another process deletes too
_NAME = re.compile(r"generation-\d{8}T\d{6}-[0-9a-f]{8}")


class State(Enum):
    """What the markers of a generation say of it; whether the metastore references it is another question."""

    BUILDING = "its builder may still be at work"
    COMPLETE = "it is complete, and nobody has noted that it was replaced"
    REPLACED = "it is noted when another one took its place"
    ORPHANED = "its builder died before it was complete"


@dataclass(frozen=True)
class Usage:
    """The state of a generation, and for how many seconds no reader can have needed it if nothing references it.

    These are 0 for one that is BUILDING or COMPLETE, and infinite for one that is ORPHANED: it never had a reader.
    """

    state: State
    unused_seconds: float = 0.0


def new_name() -> str:
    """A folder name that no other build has."""
    return f"generation-{datetime.now(timezone.utc):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


def partition_folder(root: str, names: Iterable[str], values: Iterable[str | None]) -> str:
    """The folder under `root` that holds the generations of one partition."""
    parts = [
        f"{quote(name, safe=' ')}={'__NULL__' if value is None else quote(value, safe=' ')}"
        for name, value in zip(names, values, strict=True)
    ]
    return "/".join([root, *parts])


def start(folder: str, like: str, definition: Definition) -> None:
    """Make the folder of a generation, with the permissions of the base table's folder, and mark it as being built."""
    stores.make_folder(folder)
    if stores.exists(like):
        stores.copy_permissions(like, folder)
    who = {"host": socket.gethostname(), "pid": os.getpid(), "started": time.time()}
    _say(folder, MARKER, {**who, "definition": to_properties(definition)})


def retire(folder: str) -> None:
    """Start the grace period of a generation that is no longer published; other folders are left alone."""
    if is_generation(folder) and stores.exists(folder):
        _say(folder, RETIRED, {"retired": time.time()})


def is_generation(path: str) -> bool:
    """Whether the last part of a path is the name of a generation."""
    return bool(_NAME.fullmatch(path.rpartition("/")[2]))


def is_of(folder: str, definition: Definition) -> bool:
    """Whether a folder that a table points at is a generation of this index, and not of another, or of strangers."""
    return is_generation(folder) and folder.startswith(f"{definition.root}/")


def built(folder: str) -> float:
    """When the build of a generation began, by its name: seconds since 1970."""
    stamp = folder.rpartition("/")[2].split("-")[1]
    return datetime.strptime(stamp, "%Y%m%dT%H%M%S").replace(tzinfo=timezone.utc).timestamp()


def definition_of(folder: str) -> Definition | None:
    """The index that a generation was built for, as it was defined then; None where the folder does not say."""
    return from_properties(_said(folder, MARKER).get("definition", {}))


def below(root: str, partition_columns: int) -> list[str]:
    """All generations of an index, whatever references them, of a table with so many partition columns."""
    parents = [root]
    for _ in range(partition_columns):
        parents = [path for found in each(_partitions, parents) for path in found]
    return in_folders(parents)


def in_folders(parents: Iterable[str]) -> list[str]:
    """The generations that lie directly in these folders."""
    return [folder for found in each(_generations, parents) for folder in found]


def anywhere(root: str) -> list[str]:
    """All generations in a folder and in the partition folders below it, however deep."""
    parents = deeper = [root]
    while deeper := [path for found in each(_partitions, deeper) for path in found]:
        parents = [*parents, *deeper]
    return in_folders(parents)


def size(folder: str) -> int:
    """The bytes that a generation takes."""
    files = [file for path in (folder, f"{folder}/{FOLDER}") for file in _files(path)]
    return sum(file.size for file in files)


def superseded(folders: Iterable[str], live: Collection[str], grace_seconds: float = GRACE_SECONDS) -> list[str]:
    """Which of these folders may be deleted: not in `live`, and ORPHANED, or REPLACED for at least the grace period.

    The grace period of one that is COMPLETE, and not in `live`, begins now.
    """
    unused = [folder for folder in folders if folder not in live]
    usages = list(zip(unused, each(usage, unused), strict=True))
    each(retire, [folder for folder, found in usages if found.state is State.COMPLETE])
    return [
        folder
        for folder, found in usages
        if found.state is not State.BUILDING and found.unused_seconds >= grace_seconds
    ]


def usage(folder: str) -> Usage:
    """The state of a generation by its markers.

    Ask for it before asking the metastore what is referenced: a builder may publish, and end, between the two.
    """
    who = _said(folder, MARKER)
    retired = _said(folder, RETIRED).get("retired")
    if retired is not None:
        return Usage(State.REPLACED, max(time.time() - float(retired), 0.0))
    complete = stores.exists(f"{folder}/{FOLDER}/shards.parquet")
    young = time.time() - float(who.get("started", built(folder))) < GRACE_SECONDS
    at_work = _alive(int(who["pid"])) and (young or not complete) if who.get("host") == socket.gethostname() else young
    if at_work:
        return Usage(State.BUILDING)
    return Usage(State.COMPLETE) if complete else Usage(State.ORPHANED, float("inf"))


def delete(folders: Iterable[str]) -> None:
    """Delete generations with all that is in them; those that are gone already are no error."""
    each(_delete, folders)


def remove_empty(root: str, partition_columns: int) -> None:
    """Remove the folder of an index and those of its partitions, as far as nothing is in them."""
    levels = [[root]]
    for _ in range(partition_columns):
        levels.append([path for found in each(_partitions, levels[-1]) for path in found])
    for level in reversed(levels):
        each(lambda path: stores.remove_empty_folders(path, path), level)


def _delete(folder: str) -> None:
    for _ in range(DELETIONS):
        try:
            stores.delete_folder(folder, last=(RETIRED, MARKER))  # which tell whose it is, should this be killed
            return
        except (FileNotFoundError, NotADirectoryError):  # in part by another process, or never made
            if not stores.exists(folder):
                return


def _partitions(path: str) -> list[str]:
    return [f"{path}/{name}" for name in subfolders(path) if "=" in name]


def _generations(path: str) -> list[str]:
    return [f"{path}/{name}" for name in subfolders(path) if _NAME.fullmatch(name)]


def _files(path: str) -> list[stores.FileStatus]:
    try:
        return stores.listing(path).files
    except FileNotFoundError:
        return []


def subfolders(path: str) -> list[str]:
    """The names of the folders in a folder; none where it is gone."""
    try:
        return stores.listing(path).folders
    except FileNotFoundError:
        return []


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _say(folder: str, marker: str, content: dict[str, Any]) -> None:
    with stores.open_output(f"{folder}/{marker}") as sink:
        sink.write(json.dumps(content).encode())


def _said(folder: str, marker: str) -> dict[str, Any]:
    try:
        with stores.open_input(f"{folder}/{marker}") as source:
            found: dict[str, Any] = json.loads(source.read())
            return found
    except (FileNotFoundError, json.JSONDecodeError):  # never written, or killed while it was
        return {}
