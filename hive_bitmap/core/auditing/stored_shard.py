"""Read a shard completely for `verify`, and check all recorded sizes and checksums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hive_bitmap.core import stores
from hive_bitmap.core.auditing.compare import Problems
from hive_bitmap.core.index import checksums
from hive_bitmap.core.index.definition import OFFSET, OFFSETS, Definition
from hive_bitmap.core.index.lookup import open_checked
from hive_bitmap.core.index.shard import (
    CARDINALITY,
    built_schema,
    cardinalities_path,
    compact_schema,
    row_schema,
    value_fields,
)
from hive_bitmap.errors import CorruptIndex

_MAGIC = b"PAR1"  # at the start of a Parquet file


@dataclass(frozen=True, kw_only=True)
class StoredShard:
    """A shard according to its manifest.

    `size` and `cardinality_size` are in bytes. `sums` and `cardinality_sums` are checksums (`index.checksums`). They
    are None if the generation has no checksums.
    """

    definition: Definition
    path: str
    size: int
    rows: int
    cardinality_size: int
    sums: Sequence[int] | None
    cardinality_sums: Sequence[int] | None


@dataclass(frozen=True)
class OpenShard:
    """A shard that is being read.

    `cardinalities` (int32) has the cardinality of each row of the shard. It is None if the index has no bitmaps or the
    cardinalities are unreadable.
    """

    stored: StoredShard
    file: pq.ParquetFile
    cardinalities: pa.ChunkedArray | None

    @property
    def schema(self) -> pa.Schema:
        """The schema of the tables that `row_groups` yields."""
        return (row_schema if self.cardinalities is None else built_schema)(self._of_blocks)

    @property
    def _of_blocks(self) -> Definition:
        """The definition that fits rows with one block each, as `row_groups` yields them.

        An AGGREGATE index stores its aggregates for whole files, not for single blocks, so the result has no
        aggregates. For other indexes, this is the definition of the index.
        """
        definition = self.stored.definition
        return replace(definition, aggregates=()) if definition.counts_files else definition

    def row_groups(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield the position and the rows of each row group, in order.

        The rows have the schema `schema`. There is one row for each key and block: a stored row of a COMPACT or
        AGGREGATE index, which has a list of blocks, is expanded to one row for each block. Raise CorruptIndex.
        """
        before = 0  # rows of the row groups before this one
        for group in range(self.file.num_row_groups):
            with _reading(f"shard {self.stored.path}"):
                rows = self._row_group(group)
                if self.cardinalities is not None:
                    rows = rows.append_column(CARDINALITY, self.cardinalities.slice(before, rows.num_rows))
                before += rows.num_rows
            yield group, _expanded(rows).select(self.schema.names) if OFFSETS.name in rows.column_names else rows

    def rows_of_files(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield the position and the stored rows of each row group.

        The shard must have no bitmaps. The rows have the schema `compact_schema`. Raise CorruptIndex.
        """
        for group in range(self.file.num_row_groups):
            with _reading(f"shard {self.stored.path}"):
                rows = self._row_group(group)
            yield group, rows

    def _row_group(self, group: int) -> pa.Table:
        definition = self.stored.definition
        schema = (row_schema if definition.has_bitmaps else compact_schema)(definition)
        rows = self.file.read_row_group(group)
        names = [*schema.names, *(field.name for field in value_fields(definition))]
        if rows.column_names != names:
            raise OSError(f"it has columns {rows.column_names}, not {names}")
        return rows.select(schema.names).cast(schema)

    def check_statistics(self, problems: Problems, group: int, rows: pa.Table) -> None:
        """Report keys outside the statistics of their row group.

        `rows` are the rows of the row group at the position `group`. Lookups skip row groups by their statistics, so
        they would miss such a key. Raise CorruptIndex.
        """
        with _reading(f"shard {self.stored.path}"):
            for number, name in enumerate(self.stored.definition.column_names):
                if not _within_statistics(self.file.metadata.row_group(group).column(number), rows[name]):
                    problems.add(
                        f"shard {self.stored.path} has keys of {name} outside the statistics of their row group"
                    )


@contextmanager
def opened(stored: StoredShard, problems: Problems) -> Iterator[OpenShard]:
    """Open a shard.

    Problems that leave the rows of the shard readable, such as unreadable cardinalities, are added to `problems`. Raise
    CorruptIndex if the shard itself cannot be read.
    """
    with _reading(f"shard {stored.path}"):
        source = stores.open_input(stored.path)
    with source:
        with _reading(f"shard {stored.path}"):
            _require_size(source.size(), stored.size)
            if source.read_at(len(_MAGIC), 0) != _MAGIC:
                raise OSError("it does not begin as a Parquet file")
            file = open_checked(source, checksums.footer_of(source, stored.sums), stored.sums)
        rows = file.metadata.num_rows
        if rows != stored.rows:
            problems.add(f"shard {stored.path} has {rows} rows instead of {stored.rows}")
        yield OpenShard(stored, file, _cardinalities(stored, rows, problems))


def _cardinalities(stored: StoredShard, rows: int, problems: Problems) -> pa.ChunkedArray | None:
    if not stored.definition.has_bitmaps:
        return None
    path = cardinalities_path(stored.path)
    try:
        with _reading(f"cardinalities {path}"):
            with stores.open_input(path) as source:
                _require_size(source.size(), stored.cardinality_size)
                content = source.read_buffer()
            checksums.require(content, stored.cardinality_sums)
            table = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
            if table.column_names != [CARDINALITY.name] or table.num_rows != rows:
                raise OSError(f"it has {table.num_rows} rows of {table.column_names} for the {rows} rows of its shard")
            return table[CARDINALITY.name].cast(CARDINALITY.type)
    except CorruptIndex as e:
        problems.add(str(e))
        return None


def _require_size(size: int, expected: int) -> None:
    if size != expected:
        raise OSError(f"it has {size} bytes instead of {expected}")


@contextmanager
def _reading(what: str) -> Iterator[None]:
    """Convert errors of Arrow and of the store to CorruptIndex.

    `what` names what is read, for the message.
    """

    try:
        yield
    except (OSError, pa.ArrowException, ValueError) as e:
        raise CorruptIndex(f"{what} cannot be read: {e}") from e


def _expanded(rows: pa.Table) -> pa.Table:
    offsets = rows[OFFSETS.name].combine_chunks()
    repeated = rows.drop_columns([OFFSETS.name]).take(pc.list_parent_indices(offsets))
    return repeated.append_column(OFFSET, pc.list_flatten(offsets))


def _within_statistics(column: pq.ColumnChunkMetaData, values: pa.ChunkedArray) -> bool:
    stats = column.statistics if column.is_stats_set else None
    if stats is None:
        return True
    is_within = not stats.has_null_count or (stats.null_count > 0) == (values.null_count > 0)
    if stats.has_min_max:
        low, high = (pa.scalar(bound, values.type) for bound in (stats.min, stats.max))
        inside = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
        is_within = is_within and bool(pc.all(inside, min_count=0).as_py())
    return is_within
