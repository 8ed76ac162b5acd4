"""Test cached bitmaps of every encoding and form. The oracle is a Python set of rows for each bitmap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.bitmaps import ENCODINGS, gap, selection
from hive_bitmap.core.bitmaps.cached_bitmaps import CachedBitmaps, PlainBitmaps, SparseBitmaps
from hive_bitmap.core.bitmaps.keybytes import key_bytes
from hive_bitmap.errors import CorruptBitmap


@dataclass(frozen=True)
class Kept:
    """The cached bitmaps of the keys of some blocks, ordered by key and block as in a shard."""

    held: CachedBitmaps
    block: np.ndarray
    rows_of: list[set[int]]
    where: selection.BitLayout


def keep(encoding: str, blocks: list[np.ndarray]) -> Kept:
    made = [key_bytes(np.asarray(codes, np.int64)) for codes in blocks]
    columns = [pa.concat_arrays(parts) for parts in zip(*(ENCODINGS[encoding].encode(b) for _, b in made), strict=True)]
    key = np.concatenate([present for present, _ in made])
    block = np.repeat(np.arange(len(blocks)), [len(present) for present, _ in made])
    order = np.argsort(key, kind="stable")
    rows_of = [set(np.flatnonzero(blocks[block[i]] == key[i]).tolist()) for i in order]
    held = ENCODINGS[encoding].to_cached([column.take(pa.array(order)) for column in columns])
    return Kept(held, block[order], rows_of, selection.layout([len(codes) for codes in blocks]))


@st.composite
def blocks(draw: st.DrawFn) -> list[np.ndarray]:
    """Draw blocks with dense keys, rare keys and long runs, so that every form is used."""
    seed, count = draw(st.integers(0, 1 << 16)), draw(st.integers(1, 4))
    random = np.random.default_rng(seed)
    kinds = [
        lambda rows: random.integers(0, 2, rows),
        lambda rows: random.integers(0, 60, rows),
        lambda rows: np.arange(rows) // 700,
        lambda rows: (random.random(rows) < 0.002).astype(int) * random.integers(1, 5, rows),
    ]
    return [kinds[draw(st.integers(0, 3))](draw(st.sampled_from([1, 8, 65, 3000, 20_001]))) for _ in range(count)]


@pytest.mark.parametrize("encoding", ENCODINGS)
@settings(max_examples=60)
@given(blocks(), st.data())
def test_bitmaps_asked_for_are_those_of_their_rows(encoding: str, codes: list[np.ndarray], data: st.DataObject) -> None:
    kept = keep(encoding, codes)
    chance = data.draw(st.sampled_from([0.02, 0.5, 1.0]))
    random = np.random.default_rng(len(kept.rows_of))
    which = np.flatnonzero(random.random(len(kept.rows_of)) < chance)
    starts, rows = kept.where.starts[kept.block[which]], kept.where.rows[kept.block[which]]
    within = random.integers(0, 256, kept.where.starts[-1], dtype=np.uint8) & selection.everything(kept.where)
    wanted = [set() for _ in codes]
    for i in which:
        wanted[kept.block[i]] |= kept.rows_of[i]
    inside = [set(selection.rows(within, kept.where, block).tolist()) for block in range(len(codes))]

    bits = selection.nothing(kept.where)
    kept.held.or_into(bits, which, starts, rows)
    assert [set(selection.rows(bits, kept.where, block).tolist()) for block in range(len(codes))] == wanted

    bits = selection.nothing(kept.where)
    kept.held.or_into(bits, which, starts, rows, within)
    some = [set(selection.rows(bits, kept.where, block).tolist()) for block in range(len(codes))]
    for got, all_of_them, inner in zip(some, wanted, inside, strict=True):
        assert all_of_them & inner <= got <= all_of_them

    everything = selection.everything(kept.where)
    assert kept.held.shared([within, everything], which, starts, rows).tolist() == [
        [len(kept.rows_of[i] & inside[kept.block[i]]) for i in which],
        [len(kept.rows_of[i]) for i in which],
    ]


@pytest.mark.parametrize(
    ("codes", "form"),
    [
        pytest.param(np.arange(100_000) % 2, PlainBitmaps, id="half of the rows"),
        pytest.param(np.random.default_rng(1).integers(0, 50, 100_000), PlainBitmaps, id="a row in fifty"),
        pytest.param(np.random.default_rng(1).integers(0, 500, 100_000), SparseBitmaps, id="a row in five hundred"),
        pytest.param(np.arange(100_000) // 10_000, SparseBitmaps, id="long runs"),
    ],
)
def test_gap_bitmaps_are_kept_in_little_memory(codes: np.ndarray, form: type) -> None:
    kept = keep("gap", [codes])
    columns = gap.encode(key_bytes(codes)[1])
    assert isinstance(kept.held, form)
    assert kept.held.nbytes < 3 * sum(column.nbytes for column in columns) + 1000


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("codes", [np.arange(5000) % 3, np.arange(5000) // 2000], ids=["dense", "runs"])
@pytest.mark.parametrize("rows", [4000, 6000])
def test_a_block_of_another_size_is_refused_before_a_bit_is_set(encoding: str, codes: np.ndarray, rows: int) -> None:
    kept = keep(encoding, [codes])
    bits = np.zeros(1000, np.uint8)
    which = np.arange(3)
    told = np.array([5000, 5000, rows])
    try:
        kept.held.or_into(bits, which, np.zeros(3, np.int64), told)
    except CorruptBitmap as e:
        assert "bitmap 2 of 3" in str(e)
        assert not bits.any()
    else:  # encodings that do not store the number of rows accept a larger block
        assert rows == 6000 and encoding not in ("plain", "gap")
