"""Test key bytes against their definition, the packed bits of `codes == key`."""

from __future__ import annotations

import numpy as np
import pytest

from hive_bitmap.core.bitmaps.keybytes import KeyBytes, join_full, key_bytes


def bytes_of(b: KeyBytes, key: int) -> bytes:
    whole = np.zeros(b.nbytes, np.uint8)
    own = slice(b.first[key], b.first[key + 1])
    whole[b.position[own]] = b.value[own]
    return whole.tobytes()


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int32, np.int64, np.uint64])
@pytest.mark.parametrize("keys", [1, 2, 100, 128, 129, 200])
@pytest.mark.parametrize("rows", [1, 2, 7, 8, 9, 1000, 4096])
def test_the_bytes_are_the_packed_bits(rows: int, keys: int, kind: type) -> None:
    codes = np.random.default_rng(rows * keys).integers(0, keys, rows).astype(kind)
    present, b = key_bytes(codes)
    assert present.tolist() == sorted(set(codes.tolist()))
    assert (b.rows, b.keys, b.nbytes) == (rows, len(present), (rows + 7) // 8)
    assert b.value.all() and (np.diff(b.first) > 0).all()
    for i, key in enumerate(present.tolist()):
        assert bytes_of(b, i) == np.packbits(codes == key, bitorder="little").tobytes()
        assert (np.diff(b.position[b.first[i] : b.first[i + 1]]) > 0).all()


def test_codes_that_need_more_than_32_bits_with_their_row() -> None:
    codes = np.array([2**32 - 1, 5, 2**32 - 1, 2**31, 5] * 3)
    present, b = key_bytes(codes)
    assert present.tolist() == [5, 2**31, 2**32 - 1]
    for i, key in enumerate(present.tolist()):
        assert bytes_of(b, i) == np.packbits(codes == key, bitorder="little").tobytes()


def test_no_rows_have_no_keys() -> None:
    present, b = key_bytes(np.zeros(0, np.uint8))
    assert (present.tolist(), b.keys, b.nbytes) == ([], 0, 0)


def test_full_neighbours_are_joined_inside_a_key_only() -> None:
    first, position, value, run = join_full(
        np.array([0, 3, 7]), np.array([3, 4, 6, 7, 8, 9, 10]), np.array([255, 255, 255, 255, 255, 9, 9], np.uint8), 255
    )
    assert (first.tolist(), position.tolist(), run.tolist()) == ([0, 2, 5], [3, 6, 7, 9, 10], [2, 1, 2, 1, 1])
    assert value.tolist() == [255, 255, 255, 9, 9]
