"""Generations: folders that each hold one published state of an index table or index partition.

Every build writes a new folder, which never changes after it is published. A generation that a dead build left behind,
or that no metastore entry references any more, is recognised by its name, manifest and marker files, and deleted by a
later build or by `clean`. A marker holds the definition of the index, so that the folder is still known to be ours
after its table is gone.
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
from hive_bitmap.index import manifest
from hive_bitmap.index.checksums import FOLDER
from hive_bitmap.index.definition import Definition, from_properties, to_properties
from hive_bitmap.parallel import map_parallel

MARKER = "_built_by"  # marker: host, process and start time of the build, and the definition of the index
RETIRED = "_retired"  # marker: when the generation was replaced
GRACE_SECONDS = 24 * 3600  # for so long running queries may still read a generation that was replaced
DELETIONS = 5  # attempts to delete a folder, in case another process is deleting it too
_NAME = re.compile(r"generation-\d{8}T\d{6}-[0-9a-f]{8}")


class State(Enum):
    """The state of a generation by its files alone; they do not tell whether the metastore references it."""

    BUILDING = "its build may still be running"
    COMPLETE = "it is complete, and no marker says that it was replaced"
    REPLACED = "a marker says when it was replaced"
    ORPHANED = "its build died before it was complete"


@dataclass(frozen=True)
class Usage:
    """The state of a generation, and the seconds since it was retired.

    `unused_seconds` is 0 if it is BUILDING or COMPLETE, and infinite if it is ORPHANED, as it never had a reader.
    """

    state: State
    unused_seconds: float = 0.0


def new_name() -> str:
    """Return a folder name that no other build uses."""
    return f"generation-{datetime.now(timezone.utc):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


def partition_folder(root: str, names: Iterable[str], values: Iterable[str | None]) -> str:
    """Return the folder under `root` that holds the generations of one partition."""
    parts = [
        f"{quote(name, safe=' ')}={'__NULL__' if value is None else quote(value, safe=' ')}"
        for name, value in zip(names, values, strict=True)
    ]
    return "/".join([root, *parts])


def start(folder: str, like: str, definition: Definition) -> None:
    """Create the folder of a generation, with the permissions of the folder `like`, and mark it as being built."""
    stores.make_folder(folder)
    if stores.exists(like):
        stores.copy_permissions(like, folder)
    who = {"host": socket.gethostname(), "pid": os.getpid(), "started": time.time()}
    _write_marker(folder, MARKER, {**who, "definition": to_properties(definition)})


def retire(folder: str) -> None:
    """Start the grace period of a generation that is no longer published; do nothing to any other folder."""
    if is_generation(folder) and stores.exists(folder):
        _write_marker(folder, RETIRED, {"retired": time.time()})


def is_generation(path: str) -> bool:
    """Return whether the last part of a path is the name of a generation."""
    return bool(_NAME.fullmatch(path.rpartition("/")[2]))


def belongs_to(folder: str, definition: Definition) -> bool:
    """Return whether the location of a table or partition is a generation of this index."""
    return is_generation(folder) and folder.startswith(f"{definition.root}/")


def build_time(folder: str) -> float:
    """Return when the build of a generation began, by its name, in seconds since 1970."""
    stamp = folder.rpartition("/")[2].split("-")[1]
    return datetime.strptime(stamp, "%Y%m%dT%H%M%S").replace(tzinfo=timezone.utc).timestamp()


def definition_of(folder: str) -> Definition | None:
    """Return the definition of the index that a generation was built for; None if its marker has none."""
    return from_properties(_read_marker(folder, MARKER).get("definition", {}))


def of_index(root: str, partition_columns: int) -> list[str]:
    """Return all generations of an index, referenced or not; `partition_columns` is the number of partition columns."""
    parents = [root]
    for _ in range(partition_columns):
        parents = [path for found in map_parallel(_partitions, parents) for path in found]
    return in_folders(parents)


def in_folders(parents: Iterable[str]) -> list[str]:
    """Return the generations directly in these folders."""
    return [folder for found in map_parallel(_generations, parents) for folder in found]


def all_below(root: str) -> list[str]:
    """Return all generations in a folder and in the partition folders below it, at any depth."""
    parents = deeper = [root]
    while deeper := [path for found in map_parallel(_partitions, deeper) for path in found]:
        parents = [*parents, *deeper]
    return in_folders(parents)


def size(folder: str) -> int:
    """Return the size of a generation in bytes."""
    files = [file for path in (folder, f"{folder}/{FOLDER}") for file in _files(path)]
    return sum(file.size for file in files)


def superseded(folders: Iterable[str], live: Collection[str], grace_seconds: float = GRACE_SECONDS) -> list[str]:
    """Return those of these generations that may be deleted.

    They are not in `live`, and are ORPHANED, or REPLACED for at least the grace period. The grace period of a COMPLETE
    generation that is not in `live` begins now.
    """
    unused = [folder for folder in folders if folder not in live]
    usages = list(zip(unused, map_parallel(usage, unused), strict=True))
    map_parallel(retire, [folder for folder, found in usages if found.state is State.COMPLETE])
    return [
        folder
        for folder, found in usages
        if found.state is not State.BUILDING and found.unused_seconds >= grace_seconds
    ]


def usage(folder: str) -> Usage:
    """Return the state of a generation by its markers.

    Call this before asking the metastore what is referenced. In the other order, a build could publish the generation
    and end in between, and the generation would seem to be unreferenced and no longer being built.
    """
    who = _read_marker(folder, MARKER)
    retired = _read_marker(folder, RETIRED).get("retired")
    if retired is not None:
        return Usage(State.REPLACED, max(time.time() - float(retired), 0.0))
    complete = stores.exists(f"{folder}/{FOLDER}/{manifest.SHARDS_NAME}")
    young = time.time() - float(who.get("started", build_time(folder))) < GRACE_SECONDS
    if who.get("host") == socket.gethostname():
        building = _alive(int(who["pid"])) and (young or not complete)
    else:  # whether a process of another machine lives is unknown
        building = young
    if building:
        return Usage(State.BUILDING)
    return Usage(State.COMPLETE) if complete else Usage(State.ORPHANED, float("inf"))


def delete(folders: Iterable[str]) -> None:
    """Delete generations with everything in them; it is no error if one is gone already."""
    map_parallel(_delete, folders)


def remove_empty(root: str, partition_columns: int) -> None:
    """Remove the folder of an index and those of its partitions, where they are empty."""
    levels = [[root]]
    for _ in range(partition_columns):
        levels.append([path for found in map_parallel(_partitions, levels[-1]) for path in found])
    for level in reversed(levels):
        map_parallel(lambda path: stores.remove_empty_folders(path, path), level)


def _delete(folder: str) -> None:
    for _ in range(DELETIONS):
        try:
            # Markers go last: if this process is killed meanwhile, they still identify what is left.
            stores.delete_folder(folder, last=(RETIRED, MARKER))
            return
        except (FileNotFoundError, NotADirectoryError):  # another process deletes it too, or it was never created
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
    """Return the names of the folders in a folder; none if it does not exist."""
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


def _write_marker(folder: str, marker: str, content: dict[str, Any]) -> None:
    with stores.open_output(f"{folder}/{marker}") as sink:
        sink.write(json.dumps(content).encode())


def _read_marker(folder: str, marker: str) -> dict[str, Any]:
    try:
        with stores.open_input(f"{folder}/{marker}") as source:
            found: dict[str, Any] = json.loads(source.read())
            return found
    except (FileNotFoundError, json.JSONDecodeError):  # never written, or its writer was killed
        return {}
