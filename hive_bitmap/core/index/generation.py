"""Generations: folders that each hold one published state of an index table or index partition.

Every build writes a new folder, which never changes after it is published. A generation that a dead build left behind,
or that no metastore entry references any more, is recognised by its name, manifest and marker files, and deleted by a
later build or by `clean` (`deletion`). A marker holds the definition of the index, so that the folder is still known to
be ours after its table is gone; without a marker that can be read, a folder is nobody's and is left alone.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from enum import Enum
from urllib.parse import quote

from hive_bitmap.core import stores
from hive_bitmap.core.index import manifest, markers, roots
from hive_bitmap.core.index.checksums import FOLDER
from hive_bitmap.core.index.definition import Definition, from_properties, to_properties
from hive_bitmap.core.index.markers import GRACE_SECONDS, Author, Unreadable
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.core.stores import Access
from hive_bitmap.core.stores.paths import parent

log = logging.getLogger(__name__)
MARKER = "_built_by"  # marker: host, process and start time of the build, the definition of the index, linked shards
EMPTY_FOLDER = "empty"  # in the root of an index
EMPTY_FILE = "_empty"  # object stores keep no folder without a file
RETIRED = "_retired"  # marker: when the generation was replaced
_NAME = re.compile(r"generation-\d{8}T\d{6}-[0-9a-f]{8}")


class State(Enum):
    """The state of a generation by its files alone; they do not tell whether the metastore references it."""

    BUILDING = "its build may still be running"
    COMPLETE = "it is complete, and no marker says that it was replaced"
    REPLACED = "a marker says when it was replaced"
    ORPHANED = "its build died before it was complete"
    UNKNOWN = "no marker that can be read says whose it is"


@dataclass(frozen=True)
class Usage:
    """The state of a generation, the seconds since it was retired, and the index for which it was built.

    `unused_seconds` is 0 if it is BUILDING, COMPLETE or UNKNOWN, and infinite if it is ORPHANED, as it never had a
    reader. `problem` says why it is UNKNOWN. An ORPHANED generation without a definition holds nothing.
    """

    state: State
    unused_seconds: float = 0.0
    definition: Definition | None = None
    problem: str = ""


@dataclass(frozen=True)
class Built:
    """The marker of a build: its process, its index, and the names of the shards that it linked or copied.

    `linked` is None in generations of early versions, whose shards have other names.
    """

    author: Author
    definition: Definition
    linked: frozenset[str] | None = None


def empty_folder(root: str) -> str:
    """Return the folder at which slots without a segment point (`segments.slots`)."""
    return f"{root}/{EMPTY_FOLDER}"


def make_empty_folder(root: str, access: Access | None) -> str:
    """Make the folder of empty slots, unless it is there, for those who may enter the root; return its path."""
    folder = empty_folder(root)
    if not stores.exists(f"{folder}/{EMPTY_FILE}"):
        stores.make_folder(folder)
        stores.replace_file(f"{folder}/{EMPTY_FILE}", b"")
        stores.set_access(f"{folder}/{EMPTY_FILE}", access and access.of_file)
    return folder


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


def accesses(folders: Sequence[tuple[str, str]]) -> list[Access | None]:
    """Return, for each base folder and root of an index, the access of a generation for the files in the base folder.

    Nobody may enter it who may not enter the base folder, and all folders above it that are not above the root too. In
    the place of a sticky base folder only the owner may write. Each folder is asked for once. None: the base folder is
    gone or in another store, or its store has no permissions.
    """
    enclosing = [stores.enclosing(folder, root) for folder, root in folders]
    distinct = list(dict.fromkeys(path for paths in enclosing for path in paths))
    known = dict(zip(distinct, map_parallel(stores.permissions_of, distinct), strict=True))

    def of(paths: Sequence[str]) -> Access | None:
        own = known[paths[0]] if paths else None
        return own and own.of_own_folder.within(known[path] for path in paths[1:])

    return [of(paths) for paths in enclosing]


def start(folder: str, access: Access | None, definition: Definition, linked: Sequence[str] = ()) -> None:
    """Create the folder of a generation, with this access if its store has such, and mark it as being built.

    It counts as such until `markers.end_work`, or the end of this process. `linked` are the names of the shards that
    will be linked or copied into it. Raise FileExistsError if the folder, or that of its manifest, is there already,
    and so may be somebody else's; OSError for a link between root and folder.
    """
    _require_no_link(folder, definition.root)
    stores.make_folder(parent(folder))
    stores.make_new_folder(folder, access)
    content = {**asdict(Author.this_process()), "definition": to_properties(definition), "linked": list(linked)}
    markers.begin_work(folder)
    markers.write(folder, MARKER, content)
    stores.make_new_folder(f"{folder}/{FOLDER}")


def _require_no_link(folder: str, root: str) -> None:
    """Raise OSError for a link among the folders between a root and a generation: it may lead to what others own."""
    above = parent(folder)
    while above.startswith(f"{root}/"):
        if stores.is_link(above):
            raise OSError(f"folder {above} is a link, and nothing is written through one: remove it, and rebuild")
        above = parent(above)


def retire(folder: str, definition: Definition) -> None:
    """Start the grace period of a generation of this index that is no longer published; do nothing to other folders.

    A generation whose folder does not let it be marked stays, and the log says so. One that has become a link is not
    marked: what it leads to may be somebody else's.
    """
    if stores.is_link(folder):
        log.warning("folder %s was replaced, and stays: it is a link", folder)
        return
    written = definition_of(folder) if is_generation(folder) else None
    if written is None or not roots.has_built(definition, written):
        return
    try:
        markers.write(folder, RETIRED, {"retired": time.time()})
    except OSError as e:
        log.warning("folder %s was replaced, and stays, as it cannot be marked so: %s", folder, e)


def is_generation(path: str) -> bool:
    """Return whether the last part of a path is the name of a generation."""
    return _begun(path) is not None


def belongs_to(folder: str, definition: Definition) -> bool:
    """Return whether the location of a table or partition is a generation of this index, really below its root."""
    return is_generation(folder) and folder.startswith(f"{definition.root}/") and ".." not in folder.split("/")


def build_time(folder: str) -> float:
    """Return when the build of a generation began, by its name, in seconds since 1970."""
    begun = _begun(folder)
    if begun is None:
        raise ValueError(f"{folder} is no generation")
    return begun.timestamp()


def _begun(path: str) -> datetime | None:
    """Return the moment in the name of a generation; None for any other name."""
    name = path.rpartition("/")[2]
    if not _NAME.fullmatch(name):
        return None
    try:
        return datetime.strptime(name.split("-")[1], "%Y%m%dT%H%M%S").replace(tzinfo=timezone.utc)
    except ValueError:  # such as a 13th month
        return None


def build_token(folder: str) -> str:
    """Return the eight hex digits in the name of a generation with which the names of its new shards begin."""
    return folder.rpartition("-")[2]


def built(folder: str) -> Built | None:
    """Return what the marker of a generation says; None without a marker. Raise Unreadable."""
    content = markers.read(folder, MARKER)
    if content is None:
        return None
    properties, linked = content.get("definition"), content.get("linked")
    strings = isinstance(properties, dict) and all(isinstance(value, str) for value in properties.values())
    definition = from_properties(properties) if isinstance(properties, dict) and strings else None
    if definition is None:
        raise Unreadable(f"its marker {MARKER} names no index")
    if linked is not None and not (isinstance(linked, list) and all(isinstance(name, str) for name in linked)):
        raise Unreadable(f"its marker {MARKER} is damaged")
    return Built(Author.of(content, MARKER), definition, None if linked is None else frozenset(linked))


def definition_of(folder: str) -> Definition | None:
    """Return the definition of the index that a generation was built for; None if no marker tells it."""
    try:
        known = built(folder)
    except Unreadable:
        return None
    return known.definition if known else None


def in_folders(parents: Iterable[str]) -> list[str]:
    """Return the generations directly in these folders."""
    return [folder for found in map_parallel(_generations, parents) for folder in found]


def all_below(root: str) -> list[str]:
    """Return all generations in a folder and in the partition folders below it, at any depth."""
    return in_folders(with_partitions(root))


def with_partitions(root: str) -> list[str]:
    """Return a folder and the partition folders below it, at any depth; those above come first."""
    found = deeper = [root]
    while deeper := [path for paths in map_parallel(_partitions, deeper) for path in paths]:
        found = [*found, *deeper]
    return found


def links_below(root: str) -> list[str]:
    """Return the links in a folder, and in the partition folders below it, that have the name of a folder of ours."""
    parents = with_partitions(root)
    listed = zip(parents, map_parallel(entries, parents), strict=True)
    return [
        f"{above}/{name}"
        for above, there in listed
        for name in sorted(there.others)
        if is_generation(name) or "=" in name
    ]


def size(folder: str) -> int:
    """Return the size of a generation in bytes, without that of folders that may not be listed."""
    files = [file for path in (folder, f"{folder}/{FOLDER}") for file in _listable(path).files]
    return sum(file.size for file in files)


def superseded(
    folders: Iterable[str], live: Collection[str], definition: Definition, grace_seconds: float = GRACE_SECONDS
) -> list[str]:
    """Return those of these generations of an index that may be deleted.

    They are not in `live`, and are ORPHANED, or REPLACED for at least the grace period. The grace period of a COMPLETE
    generation that is not in `live` begins now.
    """
    unused = [folder for folder in folders if folder not in live]
    usages = [
        (folder, found)
        for folder, found in zip(unused, map_parallel(usage, unused), strict=True)
        if found.definition is None or roots.has_built(definition, found.definition)
    ]
    begun = [folder for folder, found in usages if found.state is State.COMPLETE]
    map_parallel(lambda folder: retire(folder, definition), begun)
    return [
        folder
        for folder, found in usages
        if found.state not in (State.BUILDING, State.UNKNOWN) and found.unused_seconds >= grace_seconds
    ]


def usage(folder: str) -> Usage:
    """Return the state of a generation by its markers.

    Call this before asking the metastore what is referenced. In the other order, a build could publish the generation
    and end in between, and the generation would seem to be unreferenced and no longer being built.
    """
    try:
        known = built(folder)
    except Unreadable as e:
        return _without_marker(folder, str(e))
    if known is None:
        return _without_marker(folder, f"it has no marker {MARKER}")
    retired = _retired(folder)
    if retired is not None:
        return Usage(State.REPLACED, max(time.time() - retired, 0.0), known.definition)
    complete = _is_complete(folder)
    if markers.is_in_work(folder, known.author, complete):
        return Usage(State.BUILDING, 0.0, known.definition)
    if complete:
        return Usage(State.COMPLETE, 0.0, known.definition)
    return Usage(State.ORPHANED, float("inf"), known.definition)


def is_being_written(folder: str) -> bool:
    """Return whether a generation is not complete yet, and its build may still be at work."""
    try:
        known = built(folder)
    except Unreadable:
        return False
    return known is not None and not _is_complete(folder) and markers.is_in_work(folder, known.author, False)


def is_marker(name: str) -> bool:
    """Return whether an entry of a generation has the name of one of its markers, or of one that was begun."""
    return any(name == marker or markers.is_begun(name, marker) for marker in (MARKER, RETIRED))


def entries(path: str) -> stores.Listing:
    """Return the content of a folder; nothing if it does not exist."""
    try:
        return stores.listing(path)
    except (FileNotFoundError, NotADirectoryError):
        return stores.Listing([], [])


def _is_complete(folder: str) -> bool:
    return stores.exists(f"{folder}/{FOLDER}/{manifest.SHARDS_NAME}")


def _without_marker(folder: str, problem: str) -> Usage:
    """Return the state of a folder whose marker cannot be read: of a build that was killed as it began, or UNKNOWN."""
    try:
        there = entries(folder)
    except PermissionError:
        return Usage(State.UNKNOWN, problem=problem)
    if there.folders or not all(is_marker(name) for name in there.names):
        return Usage(State.UNKNOWN, problem=problem)
    young = time.time() - build_time(folder) < GRACE_SECONDS
    return Usage(State.BUILDING) if young else Usage(State.ORPHANED, float("inf"))


def _retired(folder: str) -> float | None:
    """Return when a generation was replaced; None if no marker that can be read tells it, so that it is retired now."""
    try:
        content = markers.read(folder, RETIRED) or {}
    except Unreadable:
        return None
    return float(content["retired"]) if markers.is_time(content.get("retired")) else None


def _partitions(path: str) -> list[str]:
    return [f"{path}/{name}" for name in subfolders(path) if "=" in name]


def _generations(path: str) -> list[str]:
    return [f"{path}/{name}" for name in subfolders(path) if is_generation(name)]


def subfolders(path: str) -> list[str]:
    """Return the names of the folders in a folder, without links; none if it does not exist or cannot be listed."""
    there = _listable(path)
    return [name for name in there.folders if name not in there.others]


def _listable(path: str) -> stores.Listing:
    try:
        return entries(path)
    except PermissionError:
        return stores.Listing([], [])
