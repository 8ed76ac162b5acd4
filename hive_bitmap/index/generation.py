"""Generations: the folders that an index table or partition points at, one published state each.

A folder is new for every build and never changes after it is published. What a build that died left behind, and what
no metastore entry references any more, is told by its name, its manifest and its marker, and deleted by the next build.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import time
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

from hive_bitmap.formats import storage
from hive_bitmap.index.checksums import FOLDER

MARKER = "_built_by"  # who builds, or built, this generation, and since when
RETIRED = "_retired"  # when it was replaced
GRACE_SECONDS = 24 * 3600  # readers in flight may still hold a plan of a generation that is this young
_NAME = re.compile(r"generation-\d{8}T\d{6}-[0-9a-f]{8}")


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


def start(folder: str, like: str) -> None:
    """Make the folder of a generation, with the permissions of the base table's folder, and mark it as being built."""
    storage.make_folder(folder)
    if storage.exists(like):
        storage.copy_permissions(like, folder)
    who = {"host": socket.gethostname(), "pid": os.getpid(), "started": time.time()}
    with storage.open_output(f"{folder}/{MARKER}") as sink:
        sink.write(json.dumps(who).encode())


def retire(folder: str) -> None:
    """Start the grace period of a generation that is no longer published."""
    if storage.exists(folder) and not storage.exists(f"{folder}/{RETIRED}"):
        with storage.open_output(f"{folder}/{RETIRED}") as sink:
            sink.write(json.dumps({"retired": time.time()}).encode())


def superseded(parent: str, live: str, grace_seconds: float = GRACE_SECONDS) -> list[str]:
    """The generations under `parent` that may go: retired for longer than the grace period, or half-built by the dead.

    One that is neither live nor retired (its build died between switching and retiring) is retired now.
    """
    try:
        names = storage.subfolders(parent)
    except FileNotFoundError:
        return []
    others = [folder for name in names if _NAME.fullmatch(name) and (folder := f"{parent}/{name}") != live]
    return [folder for folder in others if _may_go(folder, grace_seconds)]


def is_generation(path: str) -> bool:
    """Whether the last part of a path is the name of a generation."""
    return bool(_NAME.fullmatch(path.rpartition("/")[2]))


def _may_go(folder: str, grace_seconds: float) -> bool:
    who = _said(folder, MARKER)
    finished = storage.exists(f"{folder}/{FOLDER}/shards.parquet")
    if not finished and who.get("host") == socket.gethostname() and not _alive(int(who["pid"])):
        return True
    retired = _said(folder, RETIRED).get("retired")
    if retired is None and time.time() - float(who.get("started", _named_time(folder))) > grace_seconds:
        retire(folder)
    return retired is not None and time.time() - float(retired) > grace_seconds


def _said(folder: str, marker: str) -> dict[str, Any]:
    try:
        with storage.open_input(f"{folder}/{marker}") as source:
            found: dict[str, Any] = json.loads(source.read())
            return found
    except (FileNotFoundError, json.JSONDecodeError):  # never written, or killed while it was
        return {}


def _named_time(folder: str) -> float:
    stamp = folder.rpartition("/")[2].split("-")[1]
    return datetime.strptime(stamp, "%Y%m%dT%H%M%S").replace(tzinfo=timezone.utc).timestamp()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
