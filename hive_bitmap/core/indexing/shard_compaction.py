"""Compact shards inside a Spark task: rewrite and merge them.

Usually no base file is read. Each shard is read as a whole, because few shards take much more memory than SHARD_BYTES.
Rows of several shards are collected until they exceed this size, and are then written as one shard. If a shard turns
out to be damaged, its base files are indexed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core import stores
from hive_bitmap.core.index import checksums, shard
from hive_bitmap.core.index.definition import BUCKET, OFFSET, Definition
from hive_bitmap.core.index.fingerprint import Fingerprint
from hive_bitmap.core.index.lookup import cardinalities, open_checked
from hive_bitmap.core.index.manifest import FILES
from hive_bitmap.core.index.shard import CARDINALITY, built_schema, compact_schema, shard_name
from hive_bitmap.core.indexing.group_indexing import SHARD_BYTES, Group, ShardReport, index_group
from hive_bitmap.errors import CorruptIndex


@dataclass(frozen=True)
class Compaction:
    """Work item of a task: published shards to rewrite as one shard.

    `shards` are the paths and sizes of the shards. `files` are the manifest rows of the base files to keep, with the
    paths of the shards. `group` describes these base files, in case they must be indexed again because a shard is
    damaged; it has one definition, and the folder of the new shard. `former` maps the current path of each moved file
    to its former path, which the rows of the shards still have.
    """

    shards: tuple[tuple[str, int], ...]
    files: pa.Table
    group: Group
    former: Mapping[str, str] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """The size of the shards in bytes."""
        return sum(size for _, size in self.shards)


def compact_shards(item: Compaction) -> list[ShardReport]:
    """Write the index rows of the kept files as one new shard.

    If there are many rows, several shards are written. Moved files are checked first: a moved file that has changed
    since it was indexed is indexed again.
    """
    if item.former:
        is_unchanged = pa.array([Fingerprint.of(row).confirmed() for row in item.files.to_pylist()], pa.bool_())
        changed_files = item.files.filter(pc.invert(is_unchanged))["path"].to_pylist()
        reindexed = index_group(item.group.of(changed_files)) if changed_files else []
        return [*_compacted(replace(item, files=item.files.filter(is_unchanged))), *reindexed]
    return _compacted(item)


def _compacted(item: Compaction) -> list[ShardReport]:
    reports: list[ShardReport] = []
    waiting: dict[str, pa.Table] = {}
    damaged: list[str] = []
    for path, size in item.shards:
        try:
            waiting[path] = _rows(item, path, size)
        except CorruptIndex:
            damaged.append(path)
        if sum(rows.nbytes for rows in waiting.values()) > SHARD_BYTES:
            reports.append(_write(item, waiting))
            waiting = {}
    if waiting:
        reports.append(_write(item, waiting))
    if damaged:
        reports += index_group(item.group.of(_files_of(item, damaged)["path"].to_pylist()))
    return reports


def _files_of(item: Compaction, paths: Sequence[str]) -> pa.Table:
    """Return the manifest rows of the kept files in the shards with these paths."""
    return item.files.filter(pc.is_in(item.files["shard"], value_set=pa.array(paths, pa.string())))


def _rows(item: Compaction, path: str, size: int) -> pa.Table:
    """Return the rows of a shard that belong to kept files.

    The rows are packed (`shard.packed`), and have the current paths of the files. Raise CorruptIndex.
    """
    definition, kept_paths = item.group.definitions[0], _files_of(item, [path])["path"]

    stored_paths = [item.former.get(path, path) for path in kept_paths.to_pylist()]
    value_set = pa.array(stored_paths, pa.string())

    def kept_rows(rows: pa.Table) -> pa.Table:
        rows = rows.filter(pc.is_in(rows[BUCKET.name], value_set=value_set))
        if item.former:
            rows = rows.set_column(rows.schema.get_field_index(BUCKET.name), BUCKET, _moved(rows[BUCKET.name], item))
        return shard.packed(rows)

    return pa.concat_tables(map(kept_rows, _row_groups(definition, path, size)))


def _moved(paths: pa.ChunkedArray, item: Compaction) -> pa.ChunkedArray:
    """Replace the former paths of moved files by their current paths."""
    old, new = pa.array(item.former.values(), pa.string()), pa.array(item.former.keys(), pa.string())
    return pc.coalesce(new.take(pc.index_in(paths, value_set=old).combine_chunks()), paths)


def shard_rows(definition: Definition, path: str, size: int) -> pa.Table:
    """Read all rows of a shard, which must have `size` bytes.

    The schema is `built_schema(definition)`, or `compact_schema(definition)` without bitmaps. Raise CorruptIndex.
    """
    return pa.concat_tables(_row_groups(definition, path, size))


def _row_groups(definition: Definition, path: str, size: int) -> Iterator[pa.Table]:
    """Yield an empty table, then the rows of each row group of a shard.

    The empty table has the schema, so that a shard without rows has a schema too. Raise CorruptIndex.
    """
    schema = (built_schema if definition.has_bitmaps else compact_schema)(definition)
    yield schema.empty_table()
    try:
        counts = pa.array(cardinalities(path), CARDINALITY.type) if definition.has_bitmaps else None
        with stores.open_input(path) as source:
            if source.size() != size:
                raise OSError(f"it has {source.size()} bytes instead of {size}")
            sums = checksums.read(path.rpartition("/")[0]).get(path.rpartition("/")[2])
            file, first = open_checked(source, checksums.footer_of(source, sums), sums), 0
            if counts is not None and len(counts) != file.metadata.num_rows:
                raise ValueError(f"it has {file.metadata.num_rows:,} rows and {len(counts):,} cardinalities")
            for number in range(file.num_row_groups):
                rows = file.read_row_group(number, [name for name in schema.names if name != CARDINALITY.name])
                if counts is not None:
                    rows = rows.append_column(CARDINALITY, counts.slice(first, rows.num_rows))
                first += rows.num_rows
                yield rows.select(schema.names).cast(schema)
    except (OSError, pa.ArrowException, KeyError, ValueError) as e:
        raise CorruptIndex(f"shard {path} cannot be read: {e}") from e


def _write(item: Compaction, waiting: Mapping[str, pa.Table]) -> ShardReport:
    definition = item.group.definitions[0]
    rows = pa.concat_tables(waiting.values())
    if len(waiting) > 1:
        places = [name for name in (BUCKET.name, OFFSET.name) if name in rows.column_names]
        rows = shard.sort(rows, [*definition.column_names, *places])
    name = shard_name(item.group.folders[0])
    path = f"{item.group.folders[0]}/{name}"
    written = shard.write(path, rows, definition, item.group.partitions)
    shard.let_read(path, list(waiting))
    files = _files_of(item, list(waiting))
    names = pa.repeat(pa.scalar(name, pa.string()), files.num_rows)
    files = files.set_column(files.schema.get_field_index("shard"), FILES.field("shard"), names)
    base_rows = pc.sum(pc.list_flatten(files["rows"])).as_py() or 0
    return ShardReport(
        index=0,
        files=files,
        shard=name,
        written=written,
        shard_rows=rows.num_rows,
        base_rows=base_rows,
    )
