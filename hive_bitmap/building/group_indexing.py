"""Indexing one group of base files inside a Spark task: each block is read once, for all indexes that are built.

Only the key columns are read. A file that cannot be read as Spark would read it, or that changes meanwhile, is left
unindexed with the reason, and the group goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap import stores
from hive_bitmap.bitmaps import ENCODINGS
from hive_bitmap.bitmaps.keybytes import KeyBytes, key_bytes
from hive_bitmap.building import staged_values
from hive_bitmap.columns import Column
from hive_bitmap.errors import FileChanged, Undecodable
from hive_bitmap.formats.blocks import Blocks
from hive_bitmap.index import fingerprint, shard
from hive_bitmap.index.definition import Definition
from hive_bitmap.index.fingerprint import Fingerprint
from hive_bitmap.index.manifest import FILES
from hive_bitmap.index.shard import Written
from hive_bitmap.index.table_schema import built_schema, key_columns, shard_name
from hive_bitmap.parallel import THREADS, ahead, each

SHARD_BYTES = 256 << 20  # index rows in memory before they are sorted and written: bounds a task's memory
MOST_BYTES = 1 << 30  # index rows of one file; more fit neither a task nor the offsets of an Arrow array
ADVICE = "use the encoding gap"
AHEAD_BYTES = 128 << 20  # base files that are worked on at the same time, where that is more than two of them
NEAR_CODES = 128  # integers in so narrow a range are their own codes
DENSE_CODES = 1 << 22  # combined codes below this are numbered through a table of flags


@dataclass(frozen=True)
class Group:
    """Base files of one partition that one shard of each index will cover; it travels to a task.

    `bytes` is the size of all its files, as listed. `folders` holds the generation of each of `definitions`; `schema`
    is all data columns of the base table. `staging` is the folder of the values that Spark has read, of a format that
    only it reads.
    """

    partition: int
    paths: tuple[str, ...]
    bytes: int
    format: str
    schema: tuple[Column, ...]
    schema_crc: int
    time_zone: str
    definitions: tuple[Definition, ...]
    folders: tuple[str, ...]
    staging: str = ""


@dataclass(frozen=True)
class ShardReport:
    """What a task made of a group for one index: manifest rows of its files (schema FILES), and the shard, if any."""

    partition: int
    index: int
    files: pa.Table
    shard: str | None
    written: Written
    shard_rows: int
    base_rows: int


@dataclass(frozen=True)
class FileLook:
    """One base file as a task found it: for each index its rows, or the reason why there are none."""

    fingerprint: Fingerprint
    blocks: Blocks
    indirect: tuple[str, ...]
    rows: tuple[pa.Table | str, ...]


def index_group(group: Group) -> list[ShardReport]:
    """Write a shard for each index of the group, or several; returns what the manifests say of them."""
    reports: list[ShardReport] = []
    waiting: list[FileLook] = []
    weight = 0
    for look in ahead(partial(_look, group), group.paths, _files_at_once(group)):
        if look is not None:
            waiting.append(look)
            weight += _weight(look)
        if weight > SHARD_BYTES:
            reports += _write_shards(group, waiting)
            waiting, weight = [], 0
    return reports + _write_shards(group, waiting)


def index_rows(definition: Definition, keys: pa.Table, bucket: str, offset: int) -> pa.Table:
    """The rows of an index table for one block, a row a distinct key; schema `built_schema(definition)`.

    `keys` has the indexed columns with one row for each row of the block, in order.
    """
    codes, distinct = _codes([keys[name] for name in definition.column_names])
    present, found = key_bytes(codes)
    columns = [column.take(pa.array(present)) for column in distinct]
    columns += [pa.repeat(bucket, len(present)), pa.repeat(offset, len(present))]
    columns += [*_bitmaps(definition, found), pa.array(found.cardinalities(), pa.int32())]
    return pa.Table.from_arrays(columns, schema=built_schema(definition))


def _files_at_once(group: Group) -> int:
    """Files that are worked on at the same time: where each waits for a store, as many as memory allows."""
    if not group.paths:
        return 1
    average = group.bytes // len(group.paths)
    return min(stores.parallel(group.paths[0]), max(AHEAD_BYTES // max(average, 1), 2), THREADS)


def _weight(look: FileLook) -> int:
    return sum(rows.nbytes for rows in look.rows if isinstance(rows, pa.Table))


def _look(group: Group, path: str) -> FileLook | None:
    """Index one file; None for one that is gone."""
    try:
        before = fingerprint.take(path)
        if before.tagged:  # each request asks for this very file
            with stores.pinned(before.status):
                return _read(group, before)
        look = _read(group, before)
        return look if before.confirmed() else _unindexed(group, _unknown(path), "it changed while it was read")
    except FileNotFoundError:
        return None
    except (Undecodable, FileChanged) as e:
        return _unindexed(group, _unknown(path), str(e))


def _unknown(path: str) -> Fingerprint:
    """What no file matches: the next rebuild looks at the file again."""
    return Fingerprint(path, -1, -1, "", -1)


def _read(group: Group, found: Fingerprint) -> FileLook:
    format = staged_values.reader(group.format, group.staging)
    try:
        handle = format.open_file(found.path)
        blocks = format.blocks(handle)
        indirect = format.indirect_columns(handle, key_columns(group.schema, group.schema, group.time_zone))
    except Undecodable as e:
        return _unindexed(group, found, str(e))
    rows = tuple(_index_file(group, definition, found.path, handle, blocks) for definition in group.definitions)
    return FileLook(found, blocks, tuple(indirect), rows)


def _index_file(group: Group, definition: Definition, path: str, handle: Any, blocks: Blocks) -> pa.Table | str:
    """The index rows of all blocks of a file, or why they cannot be had."""
    columns = key_columns(definition.columns, group.schema, group.time_zone)
    rows, size = [built_schema(definition).empty_table()], 0
    try:
        for block in np.flatnonzero(blocks.rows).tolist():
            keys = staged_values.reader(group.format, group.staging).key_columns(handle, block, columns)
            rows.append(index_rows(definition, keys, path, int(blocks.offset[block])))
            size += rows[-1].nbytes
            if size > MOST_BYTES:
                raise Undecodable(
                    f"its {definition.encoding} bitmaps take more than {MOST_BYTES >> 20:,} MiB: {ADVICE}"
                )
    except (Undecodable, pa.ArrowException) as e:  # the latter for what does not fit an Arrow array
        return str(e)
    return pa.concat_tables(rows)


def _unindexed(group: Group, found: Fingerprint, reason: str) -> FileLook:
    return FileLook(found, Blocks.of([], [], []), (), (reason,) * len(group.definitions))


def _write_shards(group: Group, looks: Sequence[FileLook]) -> list[ShardReport]:
    numbers = range(len(group.definitions))
    return each(lambda index: _write_shard(group, index, looks), numbers, stores.parallel(group.folders[0]))


def _write_shard(group: Group, index: int, looks: Sequence[FileLook]) -> ShardReport:
    definition = group.definitions[index]
    parts = [part for look in looks if not isinstance(part := look.rows[index], str)]
    rows = shard.sort(pa.concat_tables([built_schema(definition).empty_table(), *parts]), definition.column_names)
    if definition.type == "COMPACT":
        rows = shard.compact(rows, definition.column_names)
    name = shard_name() if parts else None
    written = shard.write(f"{group.folders[index]}/{name}", rows, definition) if name else shard.NOTHING
    files = pa.Table.from_pylist([_manifest_row(group, look, index, name) for look in looks], schema=FILES)
    base_rows = sum(int(look.blocks.rows.sum()) for look in looks)
    return ShardReport(group.partition, index, files, name, written, rows.num_rows, base_rows)


def _manifest_row(group: Group, look: FileLook, index: int, name: str | None) -> dict[str, object]:
    found, rows = look.fingerprint, look.rows[index]
    reason = rows if isinstance(rows, str) else ""
    return {
        "path": found.path,
        "size": found.size,
        "mtime_ms": found.mtime_ms,
        "etag": found.etag,
        "tail_crc32": found.tail_crc32,
        "shard": None if reason else name,
        "reason": reason,
        "schema_crc": group.schema_crc,
        "indirect": list(look.indirect),
        "offsets": look.blocks.offset,
        "lengths": look.blocks.length,
        "rows": look.blocks.rows,
        "starts": look.blocks.start,
    }


def _bitmaps(definition: Definition, found: KeyBytes) -> list[pa.Array]:
    if definition.type != "BITMAP":
        return []
    if definition.encoding == "plain" and found.keys * found.nbytes > MOST_BYTES:
        raise Undecodable(
            f"plain bitmaps of {found.keys:,} keys in one block take over {MOST_BYTES >> 20:,} MiB: {ADVICE}"
        )
    return list(ENCODINGS[definition.encoding].encode(found))


def _codes(columns: Sequence[pa.ChunkedArray]) -> tuple[npt.NDArray[np.unsignedinteger], list[pa.Array]]:
    """One small int a row for each distinct key, and the values of each column by that int."""
    encoded = [_encode(column) for column in columns]
    codes, values = encoded[0]
    taken = [values]
    for more, values in encoded[1:]:
        combined = codes.astype(np.int64) * max(len(values), 1) + more
        codes, distinct = _renumber(combined, len(taken[0]) * len(values))
        first, second = np.divmod(distinct, max(len(values), 1))
        taken = [column.take(pa.array(first)) for column in taken] + [values.take(pa.array(second))]
    return codes.astype(np.min_scalar_type(max(len(taken[0]) - 1, 0))), taken


def _renumber(codes: npt.NDArray[np.int64], limit: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Codes as 0..n-1, and the code that each of them was."""
    if limit > DENSE_CODES:
        distinct, renumbered = np.unique(codes, return_inverse=True)
        return renumbered, distinct
    present = np.zeros(limit, bool)
    present[codes] = True
    return (np.cumsum(present) - 1)[codes], np.flatnonzero(present)


def _encode(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Codes of a column and the value of each code, NULL among them; no value has two codes."""
    column = column.unify_dictionaries() if pa.types.is_dictionary(column.type) else _single(column)
    if pa.types.is_integer(column.type) and not column.null_count:
        near = _encode_near(column)
        if near is not None:
            return near
    encoded = _single(pc.dictionary_encode(column, null_encoding="encode"))
    indices, values = encoded.indices, encoded.dictionary
    if indices.null_count:  # a column that came dictionary-encoded keeps its NULLs among the indices
        indices = indices.fill_null(len(values))
        values = pa.concat_arrays([values, pa.nulls(1, values.type)])
    codes = indices.to_numpy(zero_copy_only=False)
    again = pc.dictionary_encode(values, null_encoding="encode")
    if len(again.dictionary) == len(values):
        return codes, values
    return again.indices.to_numpy(zero_copy_only=False)[codes], again.dictionary


def _encode_near(column: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array] | None:
    """Integers that lie close together, by their distance from the smallest: some of the codes may not occur."""
    low, high = (bound.as_py() for bound in pc.min_max(column).values())
    if low is None or high - low >= NEAR_CODES:
        return None
    codes = column.to_numpy() - low if low else column.to_numpy()
    return codes, pa.array(range(low, high + 1), column.type)


def _single(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
