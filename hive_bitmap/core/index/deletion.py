"""Deleting generations: the files that builds of the very index have named, and folders that are empty then.

Nothing is deleted by place alone. The marker of the root and that of the generation must name the index; in the
generation, its shards are told by their names, which begin with the token of the build or are listed in the marker. A
folder that holds anything else stays, with a sentence that says what. Markers go last: if this process is killed
meanwhile, they still identify what is left. No link is followed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from hive_bitmap.core import stores
from hive_bitmap.core.index import checksums, generation, manifest, markers, refresh_record, roots
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.generation import Built
from hive_bitmap.core.index.markers import Unreadable
from hive_bitmap.core.index.shard import cardinalities_path
from hive_bitmap.core.parallel import map_parallel

STAGING = "_staging"  # the folder of a generation in which a build keeps for a while what Spark has read for it
STAGED_LIST = "staged.parquet"
MOST_NAMED = 5  # of the names that are not ours, in a sentence
_MANIFEST_NAMES = (manifest.FILES_NAME, manifest.LINES_NAME, manifest.SHARDS_NAME, checksums.NAME)
_ROOT_FILES = (roots.MARKER, refresh_record.NAME)
_STAGED_NAME = re.compile(r"[0-9a-f]{32}\.parquet")
_OLD_SHARD_NAME = re.compile(r"part-[0-9a-f]{32}\.parquet")  # of early versions


@dataclass(frozen=True)
class Remains:
    """A folder that was not deleted, or not completely, and a sentence that says why."""

    folder: str
    why: str


def delete(folders: Iterable[str], definition: Definition, metastore: str) -> list[Remains]:
    """Delete generations of an index of this metastore; it is no error if one is gone. Return what stays."""
    given = list(folders)
    if problem := roots.refusal(definition, metastore) if given else "":
        return [Remains(folder, problem) for folder in given]
    return [left for left in map_parallel(partial(_delete, definition), given) if left is not None]


def delete_staging(folder: str, root: str) -> None:
    """Delete what `staging` has kept in a generation for a while."""
    _delete_files(folder, root, _is_staged)
    stores.remove_folder(folder, root)


def remove_root(definition: Definition, metastore: str) -> str:
    """Remove the folders of an index's partitions, then its marker and root, where they hold nothing else.

    Return a sentence that says what they hold that is not of this index; "" if nothing. While there are generations,
    those of a running build, the root stays with its marker. Without a marker that names the index, as in roots of
    early versions, all these folders stay: they may have been there before.
    """
    root = definition.root
    if problem := roots.refusal(definition, metastore):
        return problem
    if not roots.is_marked(definition, metastore):
        return (
            f"folder {root} stays, as it has no marker {roots.MARKER}; {roots.BY_HAND}" if stores.exists(root) else ""
        )
    empty = generation.empty_folder(root)
    for folder in reversed(generation.with_partitions(root)):  # of former versions
        if folder != root:
            stores.remove_folder(folder, root)
    folders = [*generation.with_partitions(root), empty]
    strange = [name for folder in folders for name in _strange(root, folder)]
    there = generation.entries(root)
    if not any(generation.is_generation(name) or "=" in name for name in there.names):
        own = [name for name in there.names if name not in strange and name not in there.folders]
        stores.delete_files(empty, [generation.EMPTY_FILE], root)
        stores.remove_folder(empty, root)
        stores.delete_files(root, own, root)
        stores.remove_folder(root, root)
    return _stays(root, strange)


def remove_empty_parents(folders: Iterable[str], definition: Definition, metastore: str) -> None:
    """Remove the folders above generations, below their root, as long as they are empty, if the root is marked."""
    if roots.is_marked(definition, metastore):
        for folder in folders:
            _remove_empty_parents(folder, definition.root)


def _remove_empty_parents(folder: str, root: str) -> None:
    while (folder := folder.rpartition("/")[0]) != root and folder.startswith(root):
        stores.remove_folder(folder, root)


def _strange(root: str, folder: str) -> list[str]:
    """Return the entries of a root or partition folder that no build has made, as paths below the root."""
    there = generation.entries(folder)
    real_folders = set(there.folders) - there.others

    def is_ours(name: str) -> bool:
        if folder == generation.empty_folder(root):
            return name == generation.EMPTY_FILE
        if name in real_folders:
            return generation.is_generation(name) or "=" in name or f"{folder}/{name}" == generation.empty_folder(root)
        return folder == root and any(name == one or markers.is_begun(name, one) for one in _ROOT_FILES)

    return [f"{folder}/{name}".removeprefix(f"{root}/") for name in there.names if not is_ours(name)]


def _delete(definition: Definition, folder: str) -> Remains | None:
    """Delete one generation; return what stays, or None if nothing does."""
    root = definition.root
    try:
        known = generation.built(folder)
    except Unreadable as e:
        known, problem = None, str(e)
    else:
        problem = f"it has no marker {generation.MARKER}"
    if known is not None and not roots.has_built(definition, known.definition):
        return Remains(
            folder, f"it is left alone, as it is of index {known.definition.name} in {known.definition.root}"
        )
    if known is not None:
        _delete_content(folder, root, known)
    there = generation.entries(folder)
    strangers = [name for name in there.names if not generation.is_marker(name) or name in there.folders]
    if strangers:
        return Remains(folder, _stays(folder, strangers) if known else f"it is left alone, as {problem}")
    begun = [name for name in there.names if name not in (generation.RETIRED, generation.MARKER)]
    stores.delete_files(folder, [*begun, generation.RETIRED], root)
    stores.delete_files(folder, [generation.MARKER], root)
    stores.remove_folder(folder, root)
    return None


def _delete_content(folder: str, root: str, known: Built) -> None:
    """Delete the shards, the manifest and the staged files of a generation, whose markers stay."""
    is_shard = _shards_of(folder, known)
    _delete_files(folder, root, is_shard)
    real_folders = generation.subfolders(folder)
    if STAGING in real_folders:
        delete_staging(f"{folder}/{STAGING}", root)
    if checksums.FOLDER in real_folders:
        inner = f"{folder}/{checksums.FOLDER}"
        _delete_files(inner, root, lambda name: name in _MANIFEST_NAMES or is_shard(_shard_of_cardinalities(name)))
        stores.remove_folder(inner, root)


def _delete_files(folder: str, root: str, is_ours: Callable[[str], bool]) -> None:
    """Delete the files directly in a folder that are ours; a folder of such a name stays."""
    there = generation.entries(folder)
    real_folders = set(there.folders) - there.others
    stores.delete_files(folder, [name for name in there.names if is_ours(name) and name not in real_folders], root)


def _shards_of(folder: str, known: Built) -> Callable[[str], bool]:
    """Return a function that tells the names of the shards of a generation."""
    if known.linked is None:
        return lambda name: bool(_OLD_SHARD_NAME.fullmatch(name))
    linked = known.linked
    own = re.compile(rf"part-{re.escape(generation.build_token(folder))}[0-9a-f]{{24}}\.parquet")
    return lambda name: bool(own.fullmatch(name)) or (name in linked and bool(_OLD_SHARD_NAME.fullmatch(name)))


def _shard_of_cardinalities(name: str) -> str:
    """Return the name of the shard whose cardinalities are in the file of this name.

    >>> _shard_of_cardinalities("part-1.cardinalities")
    'part-1.parquet'
    """
    ending = cardinalities_path("/.parquet").rpartition("/")[2]
    return f"{name.removesuffix(ending)}.parquet" if name.endswith(ending) else ""


def _is_staged(name: str) -> bool:
    return name == STAGED_LIST or bool(_STAGED_NAME.fullmatch(name))


def _stays(folder: str, strangers: Sequence[str]) -> str:
    if not strangers:
        return ""
    more = f" and {len(strangers) - MOST_NAMED:,} more" if len(strangers) > MOST_NAMED else ""
    return (
        f"folder {folder} stays, as it holds what no build of this index has named: "
        f"{', '.join(strangers[:MOST_NAMED])}{more}; {roots.BY_HAND}"
    )
