"""Index one group of base files inside a Spark task.

Only the key columns and the aggregated columns are read. A file is not indexed if its keys cannot be read as Spark
reads them, or if the file changes during the read. For such a file, the manifest has the reason. All other files of the
group are indexed. If only an aggregated column cannot be read, the file is indexed, and the aggregates of this column
are NULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core import stores
from hive_bitmap.core.bitmaps import ENCODINGS, plain
from hive_bitmap.core.bitmaps.keybytes import KeyBytes, key_bytes
from hive_bitmap.core.columns import Column
from hive_bitmap.core.formats import Format
from hive_bitmap.core.formats.blocks import Blocks, Bounds
from hive_bitmap.core.formats.key_values import KeyColumn
from hive_bitmap.core.index import fingerprint, shard
from hive_bitmap.core.index.aggregate_columns import partials
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.fingerprint import Fingerprint
from hive_bitmap.core.index.manifest import FILES, INTEGERS, TIMES, bounded_column
from hive_bitmap.core.index.shard import Partitions, Written, built_schema, shard_name
from hive_bitmap.core.indexing.computed_keys import KeyReader
from hive_bitmap.core.indexing.staged_values import ReadOptions
from hive_bitmap.core.parallel import THREADS, map_parallel, prefetched
from hive_bitmap.core.stores import IMMUTABLE, FileStatus
from hive_bitmap.core.table_info import Values
from hive_bitmap.errors import FileChanged, Undecodable

SHARD_BYTES = 256 << 20  # bytes of index rows after which a shard is written, to limit the memory of a task
PLAIN_KEYS = 64  # most keys of any block in the encoding plain; bitmaps then take up to 8 bytes for each row
PLAIN_BYTES = 64 << 10  # most bytes of a block's bitmaps in the encoding plain if it has more than PLAIN_KEYS keys
MOST_BYTES = 1 << 30  # most bytes of index rows of one file: for a task, and for 32-bit offsets of an Arrow array
AHEAD_BYTES = 128 << 20  # most bytes of base files that are indexed at the same time; two files may exceed it
KEYS_AT_ONCE = 1 << 17  # most keys whose bitmaps are encoded together, to limit the memory of encoding
NEAR_CODES = 128  # integers within a range this narrow are encoded by their distance from the smallest
MOST_BOUNDED, MOST_BOUNDS = 32, 8192  # most columns with bounds, and most blocks times such columns of a file
NO_VALUES: Mapping[Column, pa.ChunkedArray] = {}
DENSE_CODES = 1 << 22  # up to this many possible codes are renumbered through a table of flags


@dataclass(frozen=True, kw_only=True)
class Group:
    """Work item of a task: base files to index.

    The task writes a shard for each index, or several shards if the index rows are large. The paths of the files are
    distinct. `bytes` is the total size of the files according to the listing. `folders` has the folder of the new
    segment for each of `definitions`. `schema_crc` is the checksum of the base table's schema, which the manifest
    records for each file. `immutable` has the files that are never written again, by path, as the log of a Delta or
    Iceberg table lists them. Some files make a library end the process: `fatal` maps the path of such a file to the
    reason that the manifest records. If the table has partitions, `values` has the partition values of each file as
    texts, and `typed` has a row of the typed partition values for each file.
    """

    paths: tuple[str, ...]
    bytes: int
    read_options: ReadOptions
    schema_crc: int
    definitions: tuple[Definition, ...]
    folders: tuple[str, ...]
    immutable: Mapping[str, FileStatus] = field(default_factory=dict)
    fatal: Mapping[str, str] = field(default_factory=dict)
    values: tuple[Values, ...] = ()
    typed: pa.Table | None = None

    @property
    def partitions(self) -> Partitions | None:
        """The partition columns of the files; None without partitions.

        The partition columns are stored with the index rows.
        """
        return None if self.typed is None else Partitions(pa.array(self.paths, pa.string()), self.typed)

    def of(self, paths: Sequence[str]) -> Group:
        """Return a group with some files of this group, given by path."""
        places = {path: number for number, path in enumerate(self.paths)}
        numbers = [places[path] for path in paths]
        typed = None if self.typed is None else self.typed.take(pa.array(numbers, pa.int64()))
        values = tuple(self.values[at] for at in numbers) if self.values else ()
        return replace(self, paths=tuple(paths), values=values, typed=typed)


@dataclass(frozen=True, kw_only=True)
class ShardReport:
    """What a task wrote for one index.

    `files` are manifest rows of the base files (schema FILES). `shard` is the name of the shard, or None if no file
    could be indexed; `written` has its size and checksums, and `shard_rows` its number of rows. `base_rows` is the
    number of rows of the base files. `index` is the position of the index in the group; `build_job.run_jobs` replaces
    it by the position of the new segment in the build.
    """

    index: int
    files: pa.Table
    shard: str | None
    written: Written
    shard_rows: int
    base_rows: int


@dataclass(frozen=True)
class IndexedFile:
    """The result of indexing one base file."""

    fingerprint: Fingerprint
    blocks: Blocks
    spark_only: tuple[str, ...]  # columns that only Spark reads correctly
    rows: tuple[pa.Table | str, ...]  # for each index, the index rows, or the reason why the file is not indexed
    foreign: tuple[str, ...] = ()  # lower-case names of columns of the file that the table does not have
    by_name: bool = False  # see `Format.by_name`
    nested: tuple[str, ...] = ()  # see `Format.nested_marks`
    bounds: Mapping[str, Bounds] = field(default_factory=dict)  # by name and type of the column, as in the manifest


def index_group(group: Group) -> list[ShardReport]:
    """Index the files of a group, and write the shards of each index.

    An index gets one shard, or several shards if the index rows are large. A report is returned for each shard.
    """
    reports: list[ShardReport] = []
    unwritten: list[IndexedFile] = []
    size = 0
    for file in prefetched(partial(_index_file, group), group.paths, _files_at_once(group)):
        if file is not None:
            unwritten.append(file)
            size += sum(rows.nbytes for rows in file.rows if isinstance(rows, pa.Table))
        if size > SHARD_BYTES:
            reports += _write_shards(group, unwritten)
            unwritten, size = [], 0
    return reports + _write_shards(group, unwritten)


def try_files(group: Group) -> None:
    """Index the files of a group like `index_group`, but write nothing.

    A build calls this function in a child process, to find the files that end the process.
    """
    for path in group.paths:
        _index_file(group, path)


def index_rows(
    definition: Definition,
    keys: pa.Table,
    bucket: str,
    offset: int,
    aggregated: Mapping[Column, pa.ChunkedArray] = NO_VALUES,
) -> pa.Table:
    """Return the index rows of one block, one for each distinct key.

    The result has the schema `built_schema(definition)`. `keys` holds the indexed columns of all rows of the block, in
    row order. `bucket` is the path of the base file, and `offset` the offset of the block. `aggregated` holds those of
    `Definition.measured_columns` whose values are known.
    """
    codes, distinct = _codes([keys[name] for name in definition.column_names])
    present, bits = key_bytes(codes)
    cardinalities = bits.cardinalities()
    columns = [column.take(pa.array(present)) for column in distinct]
    columns += [pa.repeat(bucket, len(present)), pa.repeat(offset, len(present)), *_bitmaps(definition, bits)]
    for column, aggregates in groupby(definition.aggregates, key=lambda aggregate: aggregate.column):
        values = None if column is None else aggregated.get(column)
        columns += partials(tuple(aggregates), codes, cardinalities, values)
    columns.append(pa.array(cardinalities, pa.int32()))
    return pa.Table.from_arrays(columns, schema=built_schema(definition))


def _files_at_once(group: Group) -> int:
    """Return how many files to index at the same time.

    Local files are indexed one after the other. For other files, AHEAD_BYTES and THREADS limit the number.
    """
    if not group.paths:
        return 1
    average = group.bytes // len(group.paths)
    return min(stores.parallel(group.paths[0]), max(AHEAD_BYTES // max(average, 1), 2), THREADS)


def _index_file(group: Group, path: str) -> IndexedFile | None:
    """Index one file for all indexes of the group.

    Return None if the file no longer exists.
    """
    try:
        if path in group.immutable:
            return _index_blocks(group, fingerprint.immutable(group.immutable[path]))
        before = fingerprint.take(path)
        if before.tagged:  # every read then demands the etag, and fails if the file was replaced
            with stores.pinned(before.status):
                return _index_blocks(group, before)
        indexed = _index_blocks(group, before)
        if before.confirmed():
            return indexed
        return _unindexed(group, _matching_nothing(path), "it changed while it was read")
    except FileNotFoundError:
        return None
    except (Undecodable, FileChanged) as e:
        return _unindexed(group, _matching_nothing(path), str(e))


def _matching_nothing(path: str) -> Fingerprint:
    """Return a fingerprint that no file matches.

    The next rebuild then reads the file again.
    """
    return Fingerprint(path=path, size=-1, mtime_ms=-1, etag="", tail_crc32=-1)


def _index_blocks(group: Group, file: Fingerprint) -> IndexedFile:
    format, schema = group.read_options.file_format(), group.read_options.schema
    columns = group.read_options.key_columns(schema)
    if file.path in group.fatal:
        return _unindexed(group, file, group.fatal[file.path], columns)
    try:
        handle = format.open_file(file.path)
        format.rehearse(handle, columns)
        blocks = format.blocks(handle)
        spark_only = set(format.spark_only_columns(handle, columns))
        nested = tuple(format.nested_marks(handle, columns))
        bounds = _bounds(format, handle, columns, len(blocks)) if file.etag != IMMUTABLE else {}
    except Undecodable as e:
        return _unindexed(group, file, str(e), columns)
    rows = tuple(_rows_or_reason(group, definition, file.path, handle, blocks) for definition in group.definitions)
    for definition, of_index in zip(group.definitions, rows, strict=True):
        if isinstance(of_index, str):  # queries through other indexes may not read these columns with Arrow either
            spark_only.update(column.name for column in definition.source_columns)
    table_names = {name.lower() for column in schema for name in (column.name, column.file_name)}
    foreign = tuple(sorted({name.lower() for name in format.names(handle)} - table_names))
    return IndexedFile(file, blocks, tuple(sorted(spark_only)), rows, foreign, format.by_name(handle), nested, bounds)


def _bounds(format: Format, handle: Any, columns: Sequence[KeyColumn], blocks: int) -> dict[str, Bounds]:
    """Return the smallest and largest values of columns in each block.

    The result maps the name and type of a column (`bounded_column`) to its bounds. Queries may sort by these columns.
    `handle` is the open base file, and `blocks` the number of its blocks. Dates and timestamps are chosen before
    integers. At most MOST_BOUNDED columns are chosen, or fewer if the file has many blocks (MOST_BOUNDS).
    """
    ordered = [column for kind in (TIMES, INTEGERS) for column in columns if column.type in kind]
    chosen = ordered[: min(MOST_BOUNDED, MOST_BOUNDS // max(blocks, 1))]
    types = {column.name: column.type for column in chosen}
    bounds_by_name = format.bounds(handle, chosen)
    return {bounded_column(name, types[name]): bounds for name, bounds in bounds_by_name.items()}


def _rows_or_reason(group: Group, definition: Definition, path: str, handle: Any, blocks: Blocks) -> pa.Table | str:
    """Return the index rows of a file, or a sentence why there are none.

    The rows are for the index `definition`.
    """
    rows, size = [_empty(definition)], 0
    try:
        reader = KeyReader.of(definition, group.read_options, path, handle, blocks)
        for block in np.flatnonzero(blocks.rows).tolist():
            keys = reader.block(block)
            values = reader.aggregated(block)
            rows.append(shard.packed(index_rows(definition, keys, path, int(blocks.offset[block]), values)))
            size += rows[-1].nbytes
            if size > MOST_BYTES:
                what = f"{definition.encoding} bitmaps" + (" and aggregates" if definition.aggregates else "")
                raise Undecodable(f"its {what} take more than {MOST_BYTES >> 20:,} MiB")
    except (Undecodable, pa.ArrowException) as e:  # ArrowException: the rows do not fit into an Arrow array
        return str(e)
    return pa.concat_tables(rows)


def _empty(definition: Definition) -> pa.Table:
    """Return an empty table in the schema of packed index rows."""
    return shard.packed(built_schema(definition).empty_table())


def _unindexed(group: Group, file: Fingerprint, reason: str, columns: Sequence[KeyColumn] = ()) -> IndexedFile:
    """Return the result for a file that is not indexed.

    `reason` is recorded for every index of the group. `columns` are marked as columns that only Spark reads correctly.
    """
    spark_only = tuple(sorted(column.name for column in columns))
    return IndexedFile(file, Blocks.of([], [], []), spark_only, (reason,) * len(group.definitions))


def _write_shards(group: Group, indexed: Sequence[IndexedFile]) -> list[ShardReport]:
    numbers = range(len(group.definitions))
    return map_parallel(lambda index: _write_shard(group, index, indexed), numbers, stores.parallel(group.folders[0]))


def _write_shard(group: Group, index: int, indexed: Sequence[IndexedFile]) -> ShardReport:
    """Write the shard of one index; return the report.

    `index` is the position of the index in the group, and `indexed` has the results for the files. No shard is written
    if none of the files could be indexed.
    """
    definition = group.definitions[index]
    parts = [part for file in indexed if not isinstance(part := file.rows[index], str)]
    rows = shard.sort(pa.concat_tables([_empty(definition), *parts]), definition.column_names)
    if not definition.has_bitmaps:
        rows = shard.compact(rows, definition)
    name = shard_name(group.folders[index]) if parts else None
    written = shard.NOTHING
    if name:
        path = f"{group.folders[index]}/{name}"
        written = shard.write(path, rows, definition, group.partitions)
        shard.let_read(path, [file.fingerprint.path for file in indexed])
    values = dict(zip(group.paths, group.values, strict=True)) if group.values else {}
    described = [
        {**_manifest_row(group, file, index, name), "values": values.get(file.fingerprint.path, ())} for file in indexed
    ]
    files = pa.Table.from_pylist(described, schema=FILES)
    base_rows = sum(int(file.blocks.rows.sum()) for file in indexed)
    return ShardReport(
        index=index,
        files=files,
        shard=name,
        written=written,
        shard_rows=rows.num_rows,
        base_rows=base_rows,
    )


def _manifest_row(group: Group, file: IndexedFile, index: int, name: str | None) -> dict[str, object]:
    file_state, rows = file.fingerprint, file.rows[index]
    reason = rows if isinstance(rows, str) else ""
    return {
        "path": file_state.path,
        "size": file_state.size,
        "mtime_ms": file_state.mtime_ms,
        "etag": file_state.etag,
        "tail_crc32": file_state.tail_crc32,
        "shard": None if reason else name,
        "reason": reason,
        "schema_crc": group.schema_crc,
        "indirect": list(file.spark_only),
        "offsets": file.blocks.offset,
        "lengths": file.blocks.length,
        "rows": file.blocks.rows,
        "starts": file.blocks.start,
        "foreign": list(file.foreign),
        "by_name": file.by_name,
        "nested": list(file.nested),
        "bounded": list(file.bounds),
        "bounds": np.concatenate([np.zeros(0, np.int64), *(bounds.numbers for bounds in file.bounds.values())]),
    }


def _bitmaps(definition: Definition, bits: KeyBytes) -> list[pa.Array]:
    if not definition.has_bitmaps:
        return []
    encoding = ENCODINGS[definition.encoding]
    if definition.encoding == plain.NAME and bits.keys > PLAIN_KEYS and bits.keys * bits.nbytes > PLAIN_BYTES:
        raise Undecodable(f"the encoding plain takes {PLAIN_KEYS} keys in a block, not {bits.keys:,}: use gap instead")
    if bits.keys <= KEYS_AT_ONCE:
        return list(encoding.encode(bits))
    parts = [encoding.encode(bits.part(first, first + KEYS_AT_ONCE)) for first in range(0, bits.keys, KEYS_AT_ONCE)]
    return [pa.concat_arrays(columns) for columns in zip(*parts, strict=True)]


def _codes(columns: Sequence[pa.ChunkedArray]) -> tuple[npt.NDArray[np.unsignedinteger], list[pa.Array]]:
    """Number the distinct keys of these columns.

    Return the number of each row's key, and for each column an array of the values by key number. Some numbers may not
    occur.
    """
    encoded = [_encode(column) for column in columns]
    codes, values = encoded[0]
    values_by_code = [values]
    for more, values in encoded[1:]:
        combined = codes.astype(np.int64) * max(len(values), 1) + more
        codes, distinct = _renumber(combined, len(values_by_code[0]) * len(values))
        first, second = np.divmod(distinct, max(len(values), 1))
        values_by_code = [column.take(pa.array(first)) for column in values_by_code] + [values.take(pa.array(second))]
    return codes.astype(np.min_scalar_type(max(len(values_by_code[0]) - 1, 0))), values_by_code


def _renumber(codes: npt.NDArray[np.int64], limit: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Renumber codes below `limit` as 0..n-1.

    Return the new codes, and the old code of each new code.
    """
    if limit > DENSE_CODES:
        distinct, renumbered = np.unique(codes, return_inverse=True)
        return renumbered, distinct
    present = np.zeros(limit, bool)
    present[codes] = True
    return (np.cumsum(present) - 1)[codes], np.flatnonzero(present)


def _encode(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Dictionary-encode a column.

    Return the code of each row, and the value of each code. NULL has a code, too. The values of the codes are distinct.
    """
    column = column.unify_dictionaries() if pa.types.is_dictionary(column.type) else _single(column)
    if pa.types.is_integer(column.type) and not column.null_count:
        near = _encode_near(column)
        if near is not None:
            return near
    encoded = _single(pc.dictionary_encode(column, null_encoding="encode"))
    indices, values = encoded.indices, encoded.dictionary
    if indices.null_count:  # in a column that was dictionary-encoded already, NULL is not in the dictionary
        indices = indices.fill_null(len(values))
        values = pa.concat_arrays([values, pa.nulls(1, values.type)])
    codes = indices.to_numpy(zero_copy_only=False)
    deduplicated = pc.dictionary_encode(values, null_encoding="encode")
    if len(deduplicated.dictionary) == len(values):
        return codes, values
    return deduplicated.indices.to_numpy(zero_copy_only=False)[codes], deduplicated.dictionary


def _encode_near(column: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array] | None:
    """Encode integers by their distance from the smallest integer.

    Return the codes of the rows, and the value of each code. Return None if the range of the integers is too wide. Some
    codes may not occur.
    """
    low, high = (bound.as_py() for bound in pc.min_max(column).values())
    if low is None or high - low >= NEAR_CODES:
        return None
    codes = column.to_numpy() - low if low else column.to_numpy()
    return codes, pa.array(range(low, high + 1), column.type)


def _single(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
