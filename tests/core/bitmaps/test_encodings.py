"""Test every encoding with the same tests. The oracle is a Python set of rows for each key of each block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.bitmaps import ENCODINGS, Encoding, selection
from hive_bitmap.core.bitmaps.keybytes import key_bytes
from hive_bitmap.errors import CorruptBitmap

ROWS = [1, 7, 8, 9, 64, 65, 1000, 65_536, 65_537, 200_000]

every_encoding = pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)


@dataclass(frozen=True)
class Stored:
    """The index rows of some blocks: the stored columns, and the block and key of each row."""

    columns: list[pa.Array]
    block: np.ndarray
    key: np.ndarray
    where: selection.BitLayout

    def take(self, chosen: np.ndarray) -> Stored:
        columns = [column.take(pa.array(chosen)) for column in self.columns]
        return Stored(columns, self.block[chosen], self.key[chosen], self.where)

    @property
    def starts(self) -> np.ndarray:
        return self.where.starts[self.block]

    @property
    def rows(self) -> np.ndarray:
        return self.where.rows[self.block]


def store(encoding: Encoding, blocks: list[np.ndarray]) -> Stored:
    """Encode the blocks, which are given by the key of each row."""
    made = [key_bytes(np.asarray(codes, np.int64)) for codes in blocks]
    columns = [pa.concat_arrays(parts) for parts in zip(*(encoding.encode(b) for _, b in made), strict=True)]
    block = np.repeat(np.arange(len(blocks)), [len(present) for present, _ in made])
    where = selection.layout([len(codes) for codes in blocks])
    return Stored(columns, block, np.concatenate([present for present, _ in made]), where)


def selected(encoding: Encoding, stored: Stored) -> list[set[int]]:
    """Decode the stored bitmaps and return their rows by block."""
    bits = selection.nothing(stored.where)
    encoding.decode_into(bits, stored.columns, stored.starts, stored.rows)
    return [set(selection.rows(bits, stored.where, block).tolist()) for block in range(len(stored.where.rows))]


def expected(blocks: list[np.ndarray], keys: set[int]) -> list[set[int]]:
    return [set(np.flatnonzero(np.isin(codes, list(keys))).tolist()) for codes in blocks]


def shapes(rows: int) -> dict[str, np.ndarray]:
    """Return blocks with this number of rows and different patterns of keys, by the name of the pattern."""
    random = np.random.default_rng(rows)
    row = np.arange(rows)
    return {
        "one key": np.zeros(rows, int),
        "alternate": row % 2,
        "random": random.integers(0, 50, rows),
        "rare": (random.random(rows) < 0.001).astype(int),
        "short runs": row // 5 % 3,
        "long runs": row // 1001,
        "last row differs": (row == rows - 1).astype(int),
        "many keys": random.integers(0, 3000, rows),
        "runs of bytes": row // 8 % 3,
    }


@every_encoding
@pytest.mark.parametrize("rows", ROWS)
def test_every_row_comes_back_under_its_key(encoding: Encoding, rows: int) -> None:
    for name, codes in shapes(rows).items():
        stored = store(encoding, [codes])
        keys, counts = np.unique(codes, return_counts=True)
        assert stored.key.tolist() == keys.tolist(), name
        assert encoding.cardinalities(stored.columns, stored.rows).tolist() == counts.tolist(), name
        for i in {0, len(keys) // 2, len(keys) - 1}:
            one = stored.take(np.array([i]))
            assert selected(encoding, one) == expected([codes], {int(keys[i])}), (name, keys[i])


@every_encoding
@pytest.mark.parametrize("rows", ROWS)
def test_many_keys_of_many_blocks_meet_in_one_selection(encoding: Encoding, rows: int) -> None:
    blocks = [*shapes(rows).values(), np.zeros(0, int), *shapes(rows // 2 + 1).values()]
    stored = store(encoding, blocks)
    wanted = set(range(0, 3000, 2))
    chosen = np.flatnonzero(np.isin(stored.key, list(wanted)))
    wanted_rows = expected(blocks, wanted)
    for order in (chosen, chosen[::-1], chosen[np.argsort(stored.key[chosen], kind="stable")]):
        assert selected(encoding, stored.take(order)) == wanted_rows


@every_encoding
def test_the_stored_columns_are_those_of_the_contract(encoding: Encoding) -> None:
    columns = encoding.encode(key_bytes(np.arange(100) % 7)[1])
    assert [column.type for column in columns] == [field.type for field in encoding.FIELDS]
    for column in columns:
        column.validate(full=True)
        assert len(column) == 7


@every_encoding
def test_a_block_without_rows_has_no_bitmaps(encoding: Encoding) -> None:
    stored = store(encoding, [np.zeros(0, int)])
    assert [len(column) for column in stored.columns] == [0] * len(encoding.FIELDS)
    assert selected(encoding, stored) == [set()]
    assert encoding.cardinalities(stored.columns, stored.rows).tolist() == []


@every_encoding
def test_slices_of_columns_are_read_as_their_rows(encoding: Encoding) -> None:
    blocks = [np.arange(100) % 7, np.arange(70) // 9]
    stored = store(encoding, blocks)
    part = slice(3, 9)
    sliced = Stored([column[part] for column in stored.columns], stored.block[part], stored.key[part], stored.where)
    assert sliced.columns[0].offset == 3
    assert selected(encoding, sliced) == selected(encoding, stored.take(np.arange(3, 9)))
    assert encoding.cardinalities(sliced.columns, sliced.rows).sum() == sum(map(len, selected(encoding, sliced)))


@every_encoding
def test_bitmaps_that_share_rows_are_a_union(encoding: Encoding) -> None:
    """Keys of a block have no rows in common, but index rows of a table that another program wrote may have."""
    random = np.random.default_rng(5)
    blocks = [random.integers(0, 3, 3000), np.arange(3000) // 100 % 3, np.arange(3000) % 3]
    stored = store(encoding, blocks)
    one_block = Stored(stored.columns, np.zeros(9, int), stored.key, selection.layout([3000]))
    chosen = np.flatnonzero(stored.key == 1)
    assert selected(encoding, one_block.take(chosen)) == [set.union(*expected(blocks, {1}))]


@every_encoding
def test_what_is_selected_already_stays(encoding: Encoding) -> None:
    stored = store(encoding, [np.arange(1000) % 4])
    bits = selection.nothing(stored.where)
    for i in (1, 3):
        one = stored.take(np.array([i]))
        encoding.decode_into(bits, one.columns, one.starts, one.rows)
    assert selection.rows(bits, stored.where, 0).tolist() == list(range(1, 1000, 2))


runs_of_keys = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 300)), min_size=1, max_size=30)
block_of_runs = runs_of_keys.map(lambda runs: np.repeat([key for key, _ in runs], [size for _, size in runs]))
block_of_rows = st.lists(st.integers(0, 200), max_size=300).map(lambda keys: np.array(keys, int))
some_blocks = st.lists(block_of_runs | block_of_rows, min_size=1, max_size=4)


@every_encoding
@settings(max_examples=60)
@given(blocks=some_blocks, keys=st.sets(st.integers(0, 200)) | st.sets(st.integers(0, 5)))
def test_any_keys_of_any_blocks(encoding: Encoding, blocks: list[np.ndarray], keys: set[int]) -> None:
    stored = store(encoding, blocks)
    chosen = stored.take(np.flatnonzero(np.isin(stored.key, list(keys))))
    rows = selected(encoding, chosen)
    assert rows == expected(blocks, keys)
    assert encoding.cardinalities(chosen.columns, chosen.rows).sum() == sum(map(len, rows))


@every_encoding
@pytest.mark.parametrize("rows", [0, 8, 992, 1001, 1016, 200_000])
def test_a_bitmap_of_another_row_count_is_refused_or_fits(encoding: Encoding, rows: int) -> None:
    """Plain and gap-coded bitmaps store their length in bytes, the other encodings at most the last row."""
    stored = store(encoding, [np.arange(1000) % 4])
    fits = (rows + 7) // 8 == 125 or (rows > 1000 and encoding.NAME not in ("plain", "gap"))
    if fits:
        assert encoding.cardinalities(stored.columns, np.full(4, rows)).tolist() == [250] * 4
    else:
        refused(encoding, stored.columns, rows)


@every_encoding
def test_null_is_refused(encoding: Encoding) -> None:
    stored = store(encoding, [np.arange(1000) % 4])
    for place in range(len(stored.columns)):
        columns = list(stored.columns)
        columns[place] = pa.array([*columns[place].to_pylist()[:3], None], columns[place].type)
        refused(encoding, columns, 1000)


@every_encoding
@settings(max_examples=150)
@given(data=st.data())
def test_damage_is_refused_or_harmless(encoding: Encoding, data: st.DataObject) -> None:
    """A damaged bitmap raises an error and writes nothing, or is another valid bitmap, which stays in its block."""
    row = np.arange(300)
    codes = data.draw(st.sampled_from([row % 3, row // 64, row // 7 % 2, row[:9] // 3]))
    stored = store(encoding, [codes])
    values = [column.to_pylist() for column in stored.columns]
    place = data.draw(st.integers(0, len(values) - 1))
    values[place][1] = damaged(values[place][1], data)
    columns = [pa.array(value, column.type) for value, column in zip(values, stored.columns, strict=True)]
    where = selection.layout([20, len(codes), 20])
    starts, rows = np.full(len(values[0]), where.starts[1]), np.full(len(values[0]), len(codes))
    bits = selection.nothing(where)
    try:
        encoding.decode_into(bits, columns, starts, rows)
    except CorruptBitmap:
        assert not bits.any()
        with pytest.raises(CorruptBitmap):
            encoding.cardinalities(columns, rows)
        return
    assert not (bits & ~selection.everything_in(where, [1])).any()
    alone = selection.nothing(where)
    encoding.decode_into(alone, [column[1:2] for column in columns], starts[1:2], rows[1:2])
    assert encoding.cardinalities(columns, rows)[1] == selection.counts(alone, where)[1]


def damaged(value: bytes | list[int], data: st.DataObject) -> bytes | list[int]:
    """Return the value with one element replaced, removed or inserted."""
    elements = list(value)
    at = data.draw(st.integers(0, max(0, len(elements) - 1)))
    some = st.integers(0, 255) if isinstance(value, bytes) else st.integers(-3, 100) | st.integers(0, 2**31 - 1)
    new = data.draw(st.lists(some | st.sampled_from([0, 1, 255]), max_size=2))
    elements[at : at + data.draw(st.integers(0, 2))] = new
    return bytes(elements) if isinstance(value, bytes) else elements


def refused(encoding: Encoding, columns: list[pa.Array], rows: int) -> None:
    """Check that both readers raise CorruptBitmap and write nothing."""
    where = selection.layout([rows])
    many = len(columns[0])
    bits = selection.nothing(where)
    with pytest.raises(CorruptBitmap):
        encoding.decode_into(bits, columns, np.zeros(many, np.int64), np.full(many, rows))
    assert not bits.any()
    with pytest.raises(CorruptBitmap):
        encoding.cardinalities(columns, np.full(many, rows))
