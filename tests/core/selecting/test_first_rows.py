"""The first rows of a sorted scan: no block is left out that may hold one of them, however the rows tie."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.columns import Column
from hive_bitmap.core.formats.blocks import Bounds
from hive_bitmap.core.index.manifest import FILES, SHARDS, Manifest
from hive_bitmap.core.predicates.nodes import TRUE
from hive_bitmap.core.selecting.candidates import LookupResults, look_up_files
from hive_bitmap.core.selecting.first_rows import FirstRows, bounds_of, is_bounded, leave_out, needed_pieces
from hive_bitmap.core.selecting.lookup_units import Flags, LookupUnit
from hive_bitmap.core.selecting.select import LookupResult
from hive_bitmap.core.selecting.split_order import Piece, Split
from tests.core.selecting.lookups import lookup_of
from tests.core.selecting.test_candidates import BY_K, index, nothing_found, partition, table

KEYS = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([-(2**63), 2**63 - 1]))
BLOCKS = st.lists(st.lists(st.tuples(KEYS, st.booleans()), max_size=5), min_size=1, max_size=4)  # keys, and who matches
FILES_OF_BLOCKS = st.lists(st.tuples(BLOCKS, st.booleans()), min_size=1, max_size=4)  # and whether a lookup is exact
FIRST = st.builds(
    FirstRows, column=st.just("ts"), ascending=st.booleans(), nulls_first=st.booleans(), rows=st.integers(1, 6)
)


def place(key: int | None, first: FirstRows) -> tuple[int, int]:
    """A number by which Python sorts as Spark does."""
    if key is None:
        return (0 if first.nulls_first else 2, 0)
    return 1, key if first.ascending else -key


def bounds(blocks: list[list[int | None]], known: list[bool]) -> Bounds:
    found = []
    for keys, is_known in zip(blocks, known, strict=True):
        values = [key for key in keys if key is not None]
        ends = (min(values), max(values)) if values else (0, 0)
        found.append((len(keys) - len(values), *ends) if is_known else None)
    return Bounds.of(found)


def results_of(files: list[tuple[list[list[tuple[int | None, bool]]], bool]]) -> LookupResults:
    """The results of one lookup, of which each file has its blocks, and an exact lookup or not."""
    blocks = [block for of_file, _ in files for block in of_file]
    numbers = np.repeat(np.arange(len(files)), [len(of_file) for of_file, _ in files])
    count = np.arange(len(blocks))
    unit = LookupUnit(
        paths=tuple(f"file:/{number}" for number in range(len(files))),
        file=numbers,
        offset=count,
        length=count,
        rows=np.array([len(block) for block in blocks], np.int64),
        parts={},
    )
    matching = np.array([sum(matches for _, matches in block) for block in blocks], np.int64)
    exact = np.array([is_exact for _, is_exact in files])
    return LookupResults(
        partitions=(partition(0),),
        lookups=(lookup_of(unit),),
        results=(LookupResult(counts=matching, exact=exact, damaged={}, index_bytes=0),),
        whole_files=(),
        deleted=0,
    )


def left_out_of(results: LookupResults, bounded: LookupResults | None) -> Flags:
    """Which blocks with matching rows are left out in `bounded`; all other blocks have the same rows there."""
    [before], [after] = results.results, (bounded or results).results
    left_out: Flags = (before.counts > 0) & (after.counts == 0)
    assert after.counts.tolist() == np.where(left_out, 0, before.counts).tolist()
    return left_out


@given(FILES_OF_BLOCKS, FIRST, st.data())
@settings(max_examples=500)
def test_no_row_is_left_out_that_may_be_among_the_first(
    files: list[tuple[list[list[tuple[int | None, bool]]], bool]], first: FirstRows, data: st.DataObject
) -> None:
    results = results_of(files)
    blocks = [block for of_file, _ in files for block in of_file]
    known = data.draw(st.lists(st.booleans() | st.just(True), min_size=len(blocks), max_size=len(blocks)))
    of_blocks = bounds([[key for key, _ in block] for block in blocks], known)
    exact = [is_exact for of_file, is_exact in files for _ in of_file]
    certain = sorted(
        place(key, first)
        for block, is_exact in zip(blocks, exact, strict=True)
        for key, matches in block
        if matches and is_exact
    )
    bounded = leave_out(results, [of_blocks], first)
    left_out = left_out_of(results, bounded)
    assert left_out.any() == (bounded is not None)
    for block, is_left_out, is_known in zip(blocks, left_out.tolist(), known, strict=True):
        keys = [place(key, first) for key, matches in block if matches]
        assert not is_left_out or (keys and is_known)
        # Ties with the last of the first rows stay, so that any of them may be returned.
        assert not is_left_out or min(keys) > certain[first.rows - 1]


def of_days(*days: int | None, rows: int = 10) -> tuple[LookupResults, Bounds]:
    """One file with a block of `rows` matching rows for each day, or of NULLs."""
    blocks: list[list[tuple[int | None, bool]]] = [[(day, True)] * rows for day in days]
    return results_of([(blocks, True)]), bounds([[day] * rows for day in days], [True] * len(days))


@pytest.mark.parametrize(
    ("ascending", "nulls_first", "rows", "left_out"),
    [
        (False, False, 10, [1, 1, 0, 1]),
        (False, False, 11, [1, 0, 0, 1]),
        (True, False, 20, [0, 0, 1, 1]),
        (True, True, 5, [1, 1, 1, 0]),
        (False, True, 20, [1, 1, 0, 0]),
        (True, False, 31, None),
        (False, False, 99, None),
    ],
)
def test_the_blocks_after_enough_rows_are_left_out(
    ascending: bool, nulls_first: bool, rows: int, left_out: list[int] | None
) -> None:
    results, of_blocks = of_days(1, 2, 3, None)
    first = FirstRows(column="ts", ascending=ascending, nulls_first=nulls_first, rows=rows)
    bounded = leave_out(results, [of_blocks], first)
    assert (None if bounded is None else left_out_of(results, bounded).tolist()) == left_out


def test_values_count_although_their_block_has_nulls_that_come_last() -> None:
    results, _ = of_days(7, 3)
    mixed = Bounds.of([(4, 7, 7), (0, 3, 3)])
    newest = FirstRows(column="ts", ascending=False, nulls_first=False, rows=6)
    bounded = leave_out(results, [mixed], newest)
    assert bounded is not None
    assert left_out_of(results, bounded).tolist() == [False, True]
    assert leave_out(results, [mixed], replace(newest, rows=7)) is None


def test_nothing_is_left_out_if_rows_are_deleted() -> None:
    results, of_blocks = of_days(1, 2)
    deleted = replace(results, lookups=(replace(results.lookups[0], deletes=("version 3",)),))
    first = FirstRows(column="ts", ascending=True, nulls_first=True, rows=5)
    assert leave_out(results, [of_blocks], first) is not None
    assert leave_out(deleted, [of_blocks], first) is None


def test_pieces_are_cut_around_blocks_that_are_left_out() -> None:
    results, of_blocks = of_days(1, 5, 1, 1, 5, 5)
    bounded = leave_out(results, [of_blocks], FirstRows(column="ts", ascending=True, nulls_first=True, rows=5))
    assert bounded is not None
    split = Split((0, 0, 0), 0, 0)
    pieces = [Piece(0, 0, 0, 3, split), Piece(0, 0, 3, 6, split)]
    assert needed_pieces(bounded, pieces) == [Piece(0, 0, *ends, split) for ends in ((0, 1), (2, 3), (3, 4))]


KNOWN: dict[str, Any] = {
    "values": ["0"],
    "size": 100,
    "mtime_ms": 5,
    "etag": "",
    "shard": "1",
    "reason": "",
    "schema_crc": 7,
    "indirect": [],
}


def manifest(name: str, files: dict[int, dict[str, Any]]) -> Manifest:
    """The manifest of an index: each file has two blocks of ten rows."""
    two = {"offsets": [4, 14], "lengths": [10, 10], "rows": [10, 10]}
    rows = [
        {**KNOWN, **two, "path": f"file:/0/{number}", "tail_crc32": number, **more} for number, more in files.items()
    ]
    shards = pa.Table.from_pylist([{"shard": "1", "size": 1, "rows": 1}], SHARDS)
    return Manifest(f"file:/i/{name}", pa.Table.from_pylist(rows, FILES), shards)


def test_bounds_are_those_of_any_index_for_the_same_state_of_a_file() -> None:
    at = {"bounded": ["day date", "at timestamp"], "bounds": [0, 0, 1, 2, 1, 2, 0, 3, 5, 6, 7, 8]}
    by_k = {
        0: at,
        1: {},
        2: {"bounded": ["at timestamp"], "bounds": [0, 9]},
        3: {"bounded": ["at date"], "bounds": [0] * 6},
    }
    by_s = {1: {**at, "tail_crc32": 1}, 2: {**at, "tail_crc32": 99}, 3: {**at, "mtime_ms": 4}}
    files = table([partition(4)], [manifest("by_k", by_k), manifest("by_s", by_s)])
    results = look_up_files(files, [TRUE], {"k": BY_K, "s": index("by_s", "s")}, nothing_found)
    found = {
        path: [(int(of.nulls[n]), int(of.low[n]), int(of.high[n])) for n in np.flatnonzero(lookup.unit.file == number)]
        for lookup, of in zip(results.lookups, bounds_of(files, results, Column("AT", "timestamp")), strict=True)
        for number, path in enumerate(lookup.unit.paths)
    }
    unknown = [(-1, 0, 0)] * 2
    recorded = [(0, 5, 7), (3, 6, 8)]
    assert [found[f"file:/0/{number}"] for number in range(4)] == [recorded, recorded, unknown, unknown]


def test_types_whose_bounds_are_recorded() -> None:
    assert all(is_bounded(Column("c", type)) for type in ("bigint", "date", "timestamp", "timestamp_ntz"))
    assert not any(is_bounded(Column("c", type)) for type in ("string", "double", "decimal(9,2)", "boolean"))


def test_the_first_rows_are_told_in_words() -> None:
    assert str(FirstRows(column="at", ascending=False, nulls_first=False, rows=1200)) == (
        "the first 1,200 rows by at DESC NULLS LAST"
    )
