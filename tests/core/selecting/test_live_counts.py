"""Deleted rows are in no count: without Spark, with Python over the rows as the oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.answering.count_budget import count_cost
from hive_bitmap.core.answering.extremes import index_covers
from hive_bitmap.core.answering.tally import tally
from hive_bitmap.core.bitmaps import ENCODINGS, selection
from hive_bitmap.core.index.fingerprint import Fingerprint
from hive_bitmap.core.index.manifest import Freshness
from hive_bitmap.core.predicates.nodes import TRUE, Compare, Predicate
from hive_bitmap.core.selecting.candidates import (
    LookupResults,
    look_up,
    look_up_all,
    restrict,
)
from hive_bitmap.core.selecting.index_rows import COUNT
from hive_bitmap.core.selecting.live_counts import without_deleted
from hive_bitmap.core.selecting.lookup_units import DeletedRows, LookupUnit, deleted_bits
from hive_bitmap.core.selecting.select import count, is_understood, select
from hive_bitmap.core.selecting.table_files import PartitionState
from hive_bitmap.core.stores import IMMUTABLE, WITH_DELETES
from hive_bitmap.errors import CorruptIndex
from tests.core.selecting.lookups import lookup_of
from tests.core.selecting.test_select import FILES, PREDICATES, Row, truth, unit_of

ENCODED = st.sampled_from(list(ENCODINGS))
SHARES = st.sampled_from([0.0, 0.2, 1.0])
PARTITION = PartitionState(name="", values=(), files=())


def without(unit: LookupUnit, deleted: Mapping[int, list[int]]) -> LookupUnit:
    """The unit without these rows of the files with these numbers."""
    rows = {unit.paths[file]: DeletedRows(f"{rows}", np.array(rows, np.int64)) for file, rows in deleted.items()}
    return replace(unit, deleted=rows)


@given(FILES, PREDICATES, ENCODED, ENCODED, SHARES, st.randoms(use_true_random=False))
@settings(max_examples=30)
def test_counts_are_those_of_the_rows_that_are_left(
    tmp_path: Path, files: list[list[Row]], predicate: Predicate, first: str, second: str, share: float, draw: object
) -> None:
    everywhere = list(range(len(files)))
    whole = unit_of(tmp_path, files, {"k": first, "s": second}, {"k": everywhere, "s": everywhere})
    deleted = {file: [row for row in range(len(rows)) if draw.random() < share] for file, rows in enumerate(files)}  # type: ignore[attr-defined]
    unit = without(whole, deleted)
    predicate = predicate if is_understood(predicate, unit.parts, {}) else TRUE
    left = [[row for at, row in enumerate(rows) if at not in deleted[file]] for file, rows in enumerate(files)]

    found = count(unit, predicate, {})
    wanted = [sum(truth(predicate, row) for row in rows) for rows in left]
    assert np.bincount(unit.file, found.counts, len(files)).tolist() == wanted
    assert select(unit, predicate, {}).counts().tolist() == found.counts.tolist()
    for keys in (("k",), ("s",), ("k", "s")):
        table = tally(unit, predicate, {}, keys)
        assert table is not None
        tallied = Counter({tuple(row[key] for key in keys): row[COUNT] for row in table.to_pylist()})
        assert tallied == Counter(
            tuple(row[key] for key in keys) for rows in left for row in rows if truth(predicate, row)
        )


def test_positions_in_a_file_are_bits_of_its_blocks(tmp_path: Path) -> None:
    files: list[list[Row]] = [[{"k": n, "s": "a", "f": 0.0} for n in range(12)] for _ in range(2)]
    unit = without(unit_of(tmp_path, files, {"k": "gap"}, {"k": [0, 1]}), {1: [0, 4, 5, 11]})
    layout = selection.layout(unit.rows)
    bits = deleted_bits(unit, layout)
    assert [selection.rows(bits, layout, block).tolist() for block in range(6)] == [[], [], [], [0, 4], [0], [1]]


FEW = [[{"k": n % 3, "s": "a", "f": 0.0} for n in range(12)] for _ in range(3)]


def looked_up(folder: Path, predicate: Predicate, deletes: tuple[str, ...]) -> LookupResults:
    unit = unit_of(folder, FEW, {"k": "gap"}, {"k": [0, 1, 2]})
    prints = tuple(Fingerprint(path=path, size=9, mtime_ms=1, etag=IMMUTABLE, tail_crc32=0) for path in unit.paths)
    lookup = lookup_of(unit, predicate, fingerprints=prints, deletes=deletes)
    return LookupResults(
        partitions=(PARTITION,), lookups=(lookup,), results=(look_up(lookup, {}),), whole_files=(), deleted=0
    )


def test_what_is_not_known_of_a_file_is_read_whole(tmp_path: Path) -> None:
    """One of the files has deleted rows that nobody can tell, one has some that it does not even have."""
    results = looked_up(tmp_path, Compare("k", "=", 1), ("x", "y", "z"))
    paths = results.lookups[0].unit.paths
    asked: list[Mapping[str, str]] = []

    def read(wanted: Mapping[str, str]) -> dict[str, DeletedRows]:
        asked.append(wanted)
        return {paths[1]: DeletedRows("y", np.array([1, 2, 11])), paths[2]: DeletedRows("z", np.array([12]))}

    found = without_deleted(results, read, partial(look_up_all, matching_keys={}))
    assert asked == [dict(zip(paths, "xyz", strict=True))]
    assert [one.status.path for one in found.whole_files] == [paths[0], paths[2]]
    assert all(one.status.etag == WITH_DELETES and one.freshness is Freshness.STALE for one in found.whole_files)
    ([lookup], [result]) = found.lookups, found.results
    assert lookup.unit.paths == (paths[1],) and lookup.deletes == ("y",)
    assert result.counts.sum() == 3 and result.exact.all()


def test_deleted_rows_are_asked_for_where_rows_are_selected(tmp_path: Path) -> None:
    def unasked(wanted: Mapping[str, str]) -> dict[str, DeletedRows]:
        raise AssertionError("nothing has to be known")

    for predicate, deletes in ((Compare("k", "=", 7), ("x", "", "z")), (TRUE, ())):
        results = looked_up(tmp_path, predicate, deletes)
        assert without_deleted(results, unasked, partial(look_up_all, matching_keys={})) == results
    results = looked_up(tmp_path, TRUE, ("", "y", ""))
    first = DeletedRows("y", np.arange(5))
    look_up_again = partial(look_up_all, matching_keys={})
    found = without_deleted(results, lambda wanted: dict.fromkeys(wanted, first), look_up_again)
    assert np.bincount(found.lookups[0].unit.file, found.results[0].counts).tolist() == [12, 7, 12]
    assert list(restrict(found.lookups[0], [1]).unit.deleted) == [results.lookups[0].unit.paths[1]]
    assert not restrict(found.lookups[0], [0, 2]).unit.deleted


def test_the_least_key_may_be_deleted_and_bitmaps_cost(tmp_path: Path) -> None:
    [plain] = looked_up(tmp_path, TRUE, ()).lookups
    [lookup] = looked_up(tmp_path, TRUE, ("", "y", "")).lookups
    assert index_covers(plain, "k") and not index_covers(lookup, "k")
    cost, more = (count_cost([one], {}, ["k"], 2).seconds for one in (plain, lookup))
    assert more > cost + 1e-3


def test_a_bitmap_without_a_deleted_row_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = without(unit_of(tmp_path, FEW, {"k": "gap"}, {"k": [0, 1, 2]}), {0: [3]})
    assert tally(unit, TRUE, {}, ("k",)) is not None

    class Empty:
        def shared(self, selections: object, which: np.ndarray, *rest: object) -> np.ndarray:  # type: ignore[type-arg]
            return np.zeros((1, len(which)), np.int64)

    monkeypatch.setattr("hive_bitmap.core.index.lookup.bitmaps", lambda *shard: Empty())
    with pytest.raises(CorruptIndex):
        tally(without(unit, {0: [4]}), TRUE, {}, ("k",))
