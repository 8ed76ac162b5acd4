"""Packed index rows: whatever is packed comes back as it was, and takes less meanwhile."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.bitmaps import ENCODINGS
from hive_bitmap.core.bitmaps.keybytes import key_bytes
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import shard
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.shard import built_schema


def definition(encoding: str, type: str = "BITMAP") -> Definition:
    return Definition(
        name="i", database="d", table="t", columns=(Column("k", "int"),), encoding=encoding, type=type, index_table="x"
    )


def rows(index: Definition, blocks: list[list[int]]) -> pa.Table:
    """Index rows of these blocks, each given by the keys of its rows."""
    parts = [built_schema(index).empty_table()]
    for number, keys in enumerate(blocks):
        present, found = key_bytes(np.array(keys, np.uint32))
        bitmaps = ENCODINGS[index.encoding].encode(found) if index.has_bitmaps else ()
        places = [pa.array([f"file:/w/{number % 2}"] * len(present)), pa.array([number] * len(present), pa.int64())]
        counted = pa.array(found.cardinalities(), pa.int32())
        columns = [pa.array(present, pa.int32()), *places, *bitmaps, counted]
        parts.append(pa.Table.from_arrays(columns, schema=built_schema(index)))
    return pa.concat_tables(parts)


BLOCKS = st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=60), max_size=5)


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(blocks=BLOCKS)
def test_what_was_packed_comes_back(encoding: str, blocks: list[list[int]]) -> None:
    index = definition(encoding)
    stored = rows(index, blocks)
    packed = shard.packed(stored)
    assert shard.packed(packed) == packed
    assert shard.unpacked(packed) == stored == shard.unpacked(stored)
    assert shard.bitmap_bytes(packed, index).tolist() == shard.bitmap_bytes(stored, index).tolist()


def test_packed_rows_are_small() -> None:
    stored = rows(definition("gap"), [list(range(2000))])
    assert shard.packed(stored).nbytes < stored.nbytes


def test_rows_of_an_index_without_bitmaps() -> None:
    compact = definition("plain", "COMPACT")
    stored = rows(compact, [[1, 2], [2]])
    packed = shard.packed(stored)
    assert pa.types.is_dictionary(packed["_bucketname"].type) and shard.unpacked(packed) == stored
    assert shard.bitmap_bytes(packed, compact).tolist() == [0, 0, 0]
