"""Create generations, which are the folders of segments, and find unused generations.

Each build writes new folders, which never change after they are published. A generation is unused if a dead build left
it behind, or if no metastore entry references it any more. An unused generation is recognised by its name, manifest and
marker files. A later build or `clean` deletes unused generations (`deletion`). A marker holds the definition of the
index, so that the owner of the folder is known even after the index table is dropped. A folder without a readable
marker has no known owner and is not touched.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum

from hive_bitmap.core import stores
from hive_bitmap.core.index import generation_names, manifest, markers, roots
from hive_bitmap.core.index.checksums import FOLDER
from hive_bitmap.core.index.definition import Definition, from_properties, to_properties
from hive_bitmap.core.index.markers import GRACE_SECONDS, Author, Unreadable
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.core.stores import Access
from hive_bitmap.core.stores.paths import parent
from hive_bitmap.core.table_info import Table

log = logging.getLogger(__name__)
MARKER = "_built_by"  # marker: host, process and start time of the build, the definition of the index, linked shards
EMPTY_FILE = "_empty"  # file in this folder, because object stores keep no folder without a file
RETIRED = "_retired"  # marker: when the generation was replaced


class State(Enum):
    """The state of a generation according to its files.

    The files do not show whether the metastore references the generation.
    """

    BUILDING = "its build may still be running"
    COMPLETE = "it is complete, and no marker says that it was replaced"
    REPLACED = "a marker says when it was replaced"
    ORPHANED = "its build died before it was complete"
    UNKNOWN = "no readable marker says which index it belongs to"


@dataclass(frozen=True)
class Usage:
    """The state of a generation, the time since it became unused, and its index.

    `unused_seconds` is the time since a REPLACED generation was retired. The time is infinite for an ORPHANED
    generation, which never had a reader, and 0 in all other states. `definition` comes from the marker of the build; it
    is None if this marker is missing or unreadable. `problem` says why the state is UNKNOWN. An ORPHANED generation
    without a definition has no files except markers.
    """

    state: State
    unused_seconds: float = 0.0
    definition: Definition | None = None
    problem: str = ""


@dataclass(frozen=True)
class Built:
    """The marker of a build.

    `author` is the process of the build. `linked` has the names of the shards that the build linked or copied from
    older generations. `linked` is None in generations of early versions, whose shards have other names.
    """

    author: Author
    definition: Definition
    linked: frozenset[str] | None = None


def make_empty_folder(root: str, access: Access | None) -> str:
    """Make the empty folder of an index; return its path.

    The folder holds an empty file. If this file exists, nothing is changed. A new file gets the permissions `access`;
    None stands for the permissions that the store gives to new files. Raise OSError if the folder is a link.
    """
    folder = generation_names.empty_folder(root)
    _require_no_link(f"{folder}/{EMPTY_FILE}", root)
    if not stores.exists(f"{folder}/{EMPTY_FILE}"):
        stores.make_folder(folder)
        stores.replace_file(f"{folder}/{EMPTY_FILE}", b"")
        stores.set_access(f"{folder}/{EMPTY_FILE}", access and access.of_file)
    return folder


def accesses(folders: Sequence[tuple[str, str]]) -> list[Access | None]:
    """Return the access that generations for some base files must have.

    Each item of `folders` is a pair: the folder of base files, and the root of an index. A generation is at most as
    readable as the base folder and its parents, except for parents that are also parents of the root. If the base
    folder is sticky, only the owner may write. Each folder takes one request. The access is None if the base folder no
    longer exists, if it is not in the store of the root, or if the store has no permissions.
    """
    enclosing = [stores.enclosing(folder, root) for folder, root in folders]
    distinct = list(dict.fromkeys(path for paths in enclosing for path in paths))
    permissions = dict(zip(distinct, map_parallel(stores.permissions_of, distinct), strict=True))

    def of(paths: Sequence[str]) -> Access | None:
        base = permissions[paths[0]] if paths else None
        return base and base.of_own_folder.within(permissions[path] for path in paths[1:])

    return [of(paths) for paths in enclosing]


def start(folder: str, access: Access | None, definition: Definition, linked: Sequence[str] = ()) -> None:
    """Create the folder of a generation, and mark it as being built.

    The folder gets the permissions `access`, if its store has permissions; None stands for the permissions that
    `stores.make_folder` gives. The generation is regarded as being built until `markers.end_work`, or until this
    process ends. `linked` are the names of the shards that will be linked or copied into the folder. Raises
    FileExistsError if the folder or its manifest folder exists: an existing folder may belong to another build. Raises
    OSError if a folder between the root and the generation is a link.
    """
    _require_no_link(folder, definition.root)
    stores.make_folder(parent(folder))
    stores.make_new_folder(folder, access)
    content = {**asdict(Author.this_process()), "definition": to_properties(definition), "linked": list(linked)}
    markers.begin_work(folder)
    markers.write(folder, MARKER, content)
    stores.make_new_folder(f"{folder}/{FOLDER}")


def _require_no_link(folder: str, root: str) -> None:
    """Raise OSError if a folder between a root and a generation is a link.

    The target of a link may belong to another owner.
    """
    above = parent(folder)
    while above.startswith(f"{root}/"):
        if stores.is_link(above):
            raise OSError(f"folder {above} is a link, and nothing is written through links: remove it, and rebuild")
        above = parent(above)


def retire(folder: str, definition: Definition) -> None:
    """Start the grace period of a generation that is no longer published.

    Folders that are not generations of this index are not changed. If a folder cannot be marked, the failure is logged,
    and the generation is kept. A link is not marked, because its target may belong to another owner.
    """
    if stores.is_link(folder):
        log.warning("folder %s was replaced, but stays: it is a link", folder)
        return
    written = definition_of(folder) if generation_names.is_generation(folder) else None
    if written is None or not roots.has_built(definition, written):
        return
    try:
        markers.write(folder, RETIRED, {"retired": time.time()})
    except OSError as e:
        log.warning("folder %s was replaced, but stays, because it cannot be marked: %s", folder, e)


def built(folder: str) -> Built | None:
    """Return the content of a generation's MARKER; None without a marker.

    Raise Unreadable.
    """
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
    """Return the definition in a generation's MARKER; None without a readable marker."""
    try:
        marker = built(folder)
    except Unreadable:
        return None
    return marker.definition if marker else None


def written_definition(table: Table) -> Definition | None:
    """Return the definition in the newest generation of an index table.

    Return None if there is no generation, if the marker of the newest generation is unreadable, or if the marker names
    an index table in another database. The name of the base table comes from the marker of the root, because the table
    may have been renamed after the build. Raise Unreadable if the marker of the root cannot be read.
    """
    if not table.location:
        return None
    folders = [table.location] if generation_names.is_generation(table.location) else all_below(table.location)
    newest = max(folders, key=generation_names.build_time, default="")
    written = definition_of(newest) if newest else None
    owner = roots.owner(table.location) if written else None
    if written is not None and owner is not None and owner.id == written.id:
        written = replace(written, database=owner.database, table=owner.table)
    if written is None or written.index_table_database != table.database:
        return None
    return replace(written, index_table=table.name)


def in_folders(parents: Iterable[str]) -> list[str]:
    """Return the generations directly in these folders."""
    return [folder for folders in map_parallel(_generations, parents) for folder in folders]


def all_below(root: str) -> list[str]:
    """Return all generations in a folder and its partition folders, at any depth."""
    return in_folders(with_partitions(root))


def with_partitions(root: str) -> list[str]:
    """Return a folder and the partition folders below it, at any depth.

    A parent comes before its subfolders.
    """
    folders = deeper = [root]
    while deeper := [path for paths in map_parallel(_partitions, deeper) for path in paths]:
        folders = [*folders, *deeper]
    return folders


def links_below(root: str) -> list[str]:
    """Return the links that are named like generations or partition folders.

    The links are in a root or its partition folders.
    """
    parents = with_partitions(root)
    listed = zip(parents, map_parallel(entries, parents), strict=True)
    return [
        f"{above}/{name}"
        for above, content in listed
        for name in sorted(content.others)
        if generation_names.is_generation(name) or "=" in name
    ]


def size(folder: str) -> int:
    """Return the size of a generation in bytes, without folders that cannot be listed."""
    files = [file for path in (folder, f"{folder}/{FOLDER}") for file in _listable(path).files]
    return sum(file.size for file in files)


def superseded(
    folders: Iterable[str], live: Collection[str], definition: Definition, grace_seconds: float = GRACE_SECONDS
) -> list[str]:
    """Return the generations of an index that may be deleted.

    `folders` are generations, and `live` has the folders that are in use. A generation that is not in `live` may be
    deleted if it is ORPHANED, or if it has been REPLACED for at least `grace_seconds`. A COMPLETE generation that is
    not in `live` is retired by this function: its grace period begins now. If `grace_seconds` is 0, the generation may
    be deleted at once.
    """
    unused = [folder for folder in folders if folder not in live]
    usages = [
        (folder, folder_usage)
        for folder, folder_usage in zip(unused, map_parallel(usage, unused), strict=True)
        if folder_usage.definition is None or roots.has_built(definition, folder_usage.definition)
    ]
    begun = [folder for folder, folder_usage in usages if folder_usage.state is State.COMPLETE]
    map_parallel(lambda folder: retire(folder, definition), begun)
    return [
        folder
        for folder, folder_usage in usages
        if folder_usage.state not in (State.BUILDING, State.UNKNOWN) and folder_usage.unused_seconds >= grace_seconds
    ]


def usage(folder: str) -> Usage:
    """Return the state of a generation by its markers.

    Call this function before you read the referenced generations from the metastore. In the opposite order, a build
    could publish the generation and end in between; then the generation would seem to be neither referenced nor in
    progress.
    """
    try:
        marker = built(folder)
    except Unreadable as e:
        return _without_marker(folder, str(e))
    if marker is None:
        return _without_marker(folder, f"it has no marker {MARKER}")
    retired = _retired(folder)
    if retired is not None:
        return Usage(State.REPLACED, max(time.time() - retired, 0.0), marker.definition)
    complete = _is_complete(folder)
    if markers.is_in_work(folder, marker.author, complete):
        return Usage(State.BUILDING, 0.0, marker.definition)
    if complete:
        return Usage(State.COMPLETE, 0.0, marker.definition)
    return Usage(State.ORPHANED, float("inf"), marker.definition)


def is_being_written(folder: str) -> bool:
    """Return whether a generation is incomplete, and its build may be running."""
    try:
        marker = built(folder)
    except Unreadable:
        return False
    return marker is not None and not _is_complete(folder) and markers.is_in_work(folder, marker.author, False)


def is_marker(name: str) -> bool:
    """Return whether an entry of a generation is a marker, complete or not."""
    return any(name == marker or markers.is_begun(name, marker) for marker in (MARKER, RETIRED))


def entries(path: str) -> stores.Listing:
    """Return the content of a folder.

    The listing is empty if the folder does not exist.
    """
    try:
        return stores.listing(path)
    except (FileNotFoundError, NotADirectoryError):
        return stores.Listing([], [])


def _is_complete(folder: str) -> bool:
    return stores.exists(f"{folder}/{FOLDER}/{manifest.SHARDS_NAME}")


def _without_marker(folder: str, problem: str) -> Usage:
    """Return the state of a folder without a readable marker.

    If the folder has nothing but unreadable markers, its build has just begun or was killed at the beginning. Such a
    folder is BUILDING for GRACE_SECONDS after the time in its name, and ORPHANED later. Any other folder is UNKNOWN,
    and so is a folder that cannot be listed. `problem` says why there is no readable marker.
    """
    try:
        content = entries(folder)
    except PermissionError:
        return Usage(State.UNKNOWN, problem=problem)
    if content.folders or not all(is_marker(name) for name in content.names):
        return Usage(State.UNKNOWN, problem=problem)
    is_young = time.time() - generation_names.build_time(folder) < GRACE_SECONDS
    return Usage(State.BUILDING) if is_young else Usage(State.ORPHANED, float("inf"))


def _retired(folder: str) -> float | None:
    """Return when a generation was retired, in seconds since 1970.

    Return None without a readable marker.
    """
    try:
        content = markers.read(folder, RETIRED) or {}
    except Unreadable:
        return None
    return float(content["retired"]) if markers.is_time(content.get("retired")) else None


def _partitions(path: str) -> list[str]:
    return [f"{path}/{name}" for name in subfolders(path) if "=" in name]


def _generations(path: str) -> list[str]:
    return [f"{path}/{name}" for name in subfolders(path) if generation_names.is_generation(name)]


def subfolders(path: str) -> list[str]:
    """Return the names of the folders in a folder, without links.

    The result is empty if the folder does not exist or cannot be listed.
    """
    content = _listable(path)
    return [name for name in content.folders if name not in content.others]


def _listable(path: str) -> stores.Listing:
    try:
        return entries(path)
    except PermissionError:
        return stores.Listing([], [])
