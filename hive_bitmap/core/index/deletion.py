"""Delete generations, and folders that become empty.

A file is deleted only if builds of this index gave the file its name; the location of a file is never enough. The
markers of the root and of the generation must name the index. Shards in the generation are recognised by their names,
which begin with the token of the build or are listed in the marker. A folder with any other content is kept, and a
message lists this content. Markers are deleted last: if this process is killed earlier, the markers still identify the
remaining files. Links are not followed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from hive_bitmap.core import stores
from hive_bitmap.core.index import checksums, generation, generation_names, manifest, markers, refresh_record, roots
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.generation import Built
from hive_bitmap.core.index.markers import Unreadable
from hive_bitmap.core.index.shard import cardinalities_path
from hive_bitmap.core.parallel import map_parallel

STAGING = "_staging"  # folder in a generation for the values that Spark reads or computes for a build
STAGED_LIST = "staged.parquet"  # list of files with staged values
COMPUTED_LIST = "computed.parquet"  # list of files with computed keys
MEASURED_LIST = "measured.parquet"  # list of files with computed values to aggregate
MOST_NAMED = 5  # most foreign names that a message lists
_MANIFEST_NAMES = (manifest.FILES_NAME, manifest.LINES_NAME, manifest.SHARDS_NAME, checksums.NAME)
_ROOT_FILES = (roots.MARKER, refresh_record.NAME)
_STAGED_NAME = re.compile(r"[0-9a-f]{32}\.parquet")
_OLD_SHARD_NAME = re.compile(r"part-[0-9a-f]{32}\.parquet")  # names that early versions gave to shards


@dataclass(frozen=True)
class Remains:
    """A folder that was not deleted completely, and a sentence with the reason."""

    folder: str
    why: str


def delete(folders: Iterable[str], definition: Definition, metastore: str) -> list[Remains]:
    """Delete generations of an index; return what remains of them.

    `folders` are the generations; a missing generation is not an error. `metastore` is the id of this metastore.
    Nothing is deleted if this metastore may not delete in the root of the index (`roots.refusal`).
    """
    requested = list(folders)
    if problem := roots.refusal(definition, metastore) if requested else "":
        return [Remains(folder, problem) for folder in requested]
    return [remains for remains in map_parallel(partial(_delete, definition), requested) if remains is not None]


def delete_staging(folder: str, root: str) -> None:
    """Delete the temporary files that a build has staged in a generation.

    `folder` is the staging folder, which is also removed if nothing else is in it. Links below `root` are not followed.
    """
    _delete_files(folder, root, _is_staged)
    stores.remove_folder(folder, root)


def delete_abandoned(folder: str, root: str, shards: Collection[str]) -> None:
    """Delete the shards that failed or repeated tasks have written.

    `folder` is an unpublished generation, and `shards` has the names of the shards to keep. All other shards of the
    generation's own build are deleted, with their cardinality files. Spark runs a task again if its executor is lost or
    slow, so two attempts may write shards with the same rows. SQL queries of the index table would read these rows
    twice.
    """
    own_name = _own_shard(folder)
    abandoned = [name for name in generation.entries(folder).names if own_name.fullmatch(name) and name not in shards]
    if abandoned:
        stores.delete_files(folder, abandoned, root)
        beside = [cardinalities_path(f"{folder}/{name}") for name in abandoned]
        stores.delete_files(f"{folder}/{checksums.FOLDER}", [path.rpartition("/")[2] for path in beside], root)


def remove_root(definition: Definition, metastore: str) -> str:
    """Remove the folders of an index's partitions, then its marker and root.

    `metastore` is the id of this metastore. Nothing is removed if this metastore may not delete in the root
    (`roots.refusal`). Nothing is removed either if no marker names the index, as in roots of early versions, because
    the root and its folders may have existed before the index. Folders with foreign content are kept: with entries that
    no build of the index creates. If something is kept for these reasons, return a sentence that says what is kept and
    why; otherwise "". A root that has generations is kept with its marker: for example, a running build may be writing
    a generation.
    """
    root = definition.root
    if problem := roots.refusal(definition, metastore):
        return problem
    if not roots.is_marked(definition, metastore):
        return (
            f"folder {root} stays, because it has no marker {roots.MARKER}; {roots.BY_HAND}"
            if stores.exists(root)
            else ""
        )
    empty = generation_names.empty_folder(root)
    for folder in reversed(generation.with_partitions(root)):  # former versions had folders of partitions
        if folder != root:
            stores.remove_folder(folder, root)
    folders = [*generation.with_partitions(root), empty]
    foreign = [name for folder in folders for name in _foreign_entries(root, folder)]
    content = generation.entries(root)
    if not any(generation_names.is_generation(name) or "=" in name for name in content.names):
        removable = [name for name in content.names if name not in foreign and name not in content.folders]
        stores.delete_files(empty, [generation.EMPTY_FILE], root)
        stores.remove_folder(empty, root)
        stores.delete_files(root, removable, root)
        stores.remove_folder(root, root)
    return _stays(root, foreign)


def remove_empty_parents(folders: Iterable[str], definition: Definition, metastore: str) -> None:
    """Remove empty folders between generations and their root.

    `folders` are the generations. `metastore` is the id of this metastore. Nothing is removed unless the marker of the
    root names the index and this metastore (`roots.is_marked`).
    """
    if roots.is_marked(definition, metastore):
        for folder in folders:
            _remove_empty_parents(folder, definition.root)


def _remove_empty_parents(folder: str, root: str) -> None:
    while (folder := folder.rpartition("/")[0]) != root and folder.startswith(root):
        stores.remove_folder(folder, root)


def _foreign_entries(root: str, folder: str) -> list[str]:
    """Return the foreign entries of a folder: entries that no build creates.

    The folder is a root or a partition folder. The entries are given by paths relative to the root.
    """
    content = generation.entries(folder)
    real_folders = set(content.folders) - content.others

    def is_ours(name: str) -> bool:
        if folder == generation_names.empty_folder(root):
            return name == generation.EMPTY_FILE
        if name in real_folders:
            return (
                generation_names.is_generation(name)
                or "=" in name
                or f"{folder}/{name}" == generation_names.empty_folder(root)
            )
        return folder == root and any(name == file or markers.is_begun(name, file) for file in _ROOT_FILES)

    return [f"{folder}/{name}".removeprefix(f"{root}/") for name in content.names if not is_ours(name)]


def _delete(definition: Definition, folder: str) -> Remains | None:
    """Delete one generation; return its remains, or None if nothing remains."""
    root = definition.root
    try:
        marker = generation.built(folder)
    except Unreadable as e:
        marker, problem = None, str(e)
    else:
        problem = f"it has no marker {generation.MARKER}"
    if marker is not None and not roots.has_built(definition, marker.definition):
        return Remains(
            folder,
            f"it is left alone, because it belongs to index {marker.definition.name} in {marker.definition.root}",
        )
    if marker is not None:
        _delete_content(folder, root, marker)
    content = generation.entries(folder)
    foreign = [name for name in content.names if not generation.is_marker(name) or name in content.folders]
    if foreign:
        return Remains(folder, _stays(folder, foreign) if marker else f"it is left alone, because {problem}")
    begun = [name for name in content.names if name not in (generation.RETIRED, generation.MARKER)]
    stores.delete_files(folder, [*begun, generation.RETIRED], root)
    stores.delete_files(folder, [generation.MARKER], root)
    stores.remove_folder(folder, root)
    return None


def _delete_content(folder: str, root: str, marker: Built) -> None:
    """Delete the content of a generation, but not its markers.

    The content consists of the shards, the manifest and the staged files.
    """
    is_shard = _shards_of(folder, marker)
    _delete_files(folder, root, is_shard)
    real_folders = generation.subfolders(folder)
    if STAGING in real_folders:
        delete_staging(f"{folder}/{STAGING}", root)
    if checksums.FOLDER in real_folders:
        inner = f"{folder}/{checksums.FOLDER}"
        _delete_files(inner, root, lambda name: name in _MANIFEST_NAMES or is_shard(_shard_of_cardinalities(name)))
        stores.remove_folder(inner, root)


def _delete_files(folder: str, root: str, is_ours: Callable[[str], bool]) -> None:
    """Delete the files in a folder if `is_ours` is true for their names.

    Links below `root` are not followed.
    """
    content = generation.entries(folder)
    real_folders = set(content.folders) - content.others
    stores.delete_files(folder, [name for name in content.names if is_ours(name) and name not in real_folders], root)


def _shards_of(folder: str, marker: Built) -> Callable[[str], bool]:
    """Return a function that recognises the names of a generation's shards.

    `folder` is the generation. `marker` is the marker of the generation, which lists the linked shards.
    """
    if marker.linked is None:
        return lambda name: bool(_OLD_SHARD_NAME.fullmatch(name))
    linked, own_name = marker.linked, _own_shard(folder)
    return lambda name: bool(own_name.fullmatch(name)) or (name in linked and bool(_OLD_SHARD_NAME.fullmatch(name)))


def _own_shard(folder: str) -> re.Pattern[str]:
    """Return the pattern of the names of a generation's own shards.

    `folder` is the generation. Its own shards are the shards that its build has written, under names that
    `shard.shard_name` makes. Linked shards keep the names that earlier builds gave them.
    """
    return re.compile(rf"part-{re.escape(generation_names.build_token(folder))}[0-9a-f]{{24}}\.parquet")


def _shard_of_cardinalities(name: str) -> str:
    """Return the name of a cardinality file's shard; "" for other files.

    >>> _shard_of_cardinalities("part-1.cardinalities")
    'part-1.parquet'
    """
    ending = cardinalities_path("/.parquet").rpartition("/")[2]
    return f"{name.removesuffix(ending)}.parquet" if name.endswith(ending) else ""


def _is_staged(name: str) -> bool:
    return name in (STAGED_LIST, COMPUTED_LIST, MEASURED_LIST) or bool(_STAGED_NAME.fullmatch(name))


def _stays(folder: str, foreign: Sequence[str]) -> str:
    if not foreign:
        return ""
    more = f" and {len(foreign) - MOST_NAMED:,} more" if len(foreign) > MOST_NAMED else ""
    return (
        f"folder {folder} stays, because it holds files that no build of this index has named: "
        f"{', '.join(foreign[:MOST_NAMED])}{more}; {roots.BY_HAND}"
    )
