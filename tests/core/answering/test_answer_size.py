"""Whether an answer fits the driver: what is estimated of the keys of real shards, and what is remembered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hive_bitmap.core.answering.answer_size import (
    FEW_ROWS,
    ROW_BYTES,
    TooLarge,
    estimated_keys,
    nbytes,
    remember_too_large,
)
from hive_bitmap.core.index import lookup as shards
from hive_bitmap.core.predicates.nodes import TRUE, Compare, Predicate
from hive_bitmap.core.selecting.candidates import LookupResults, look_up
from tests.core.selecting.lookups import lookup_of
from tests.core.selecting.test_select import unit_of

ROWS = 3 * FEW_ROWS


def looked_up(folder: Path, *files: list[dict[str, Any]], predicate: Predicate = TRUE, together: bool = True) -> Any:
    """Look up files, all of them in one shard or each in one of its own."""
    lookups = []
    for number, held in enumerate([files] if together else [(file,) for file in files]):
        (folder / str(number)).mkdir()
        known = list(range(len(held)))
        unit = unit_of(folder / str(number), list(held), {"k": "gap", "s": "gap"}, {"k": known, "s": known}, ROWS)
        parts = {
            name: replace(part, entries=sum(pq.read_metadata(path[5:]).num_rows for path, _ in part.shards))
            for name, part in unit.parts.items()
        }
        lookups.append(lookup_of(replace(unit, parts=parts), predicate))
    results = tuple(look_up(lookup, {}) for lookup in lookups)
    return LookupResults(partitions=(), lookups=tuple(lookups), results=results, whole_files=(), deleted=0)


def rows(numbers: range, text: str = "{:08d}") -> list[dict[str, Any]]:
    return [{"k": number % 7, "s": text.format(number), "f": 0.0} for number in numbers]


def fits(results: LookupResults, limit: int, *keys: str) -> bool:
    try:
        estimated_keys(results, [keys], limit)
    except TooLarge:
        return False
    return True


def estimate(results: LookupResults, *keys: str) -> int:
    """Return the least limit that is enough: the estimate."""
    low, high = 0, 1 << 40
    while low < high:
        limit = (low + high) // 2
        low, high = (low, limit) if fits(results, limit, *keys) else (limit + 1, high)
    return low


def test_keys_that_all_differ_take_what_they_are_and_a_row_of_the_jvm(tmp_path: Path) -> None:
    found = looked_up(tmp_path, rows(range(ROWS)))
    assert ROWS * (ROW_BYTES + 8) <= estimate(found, "s") <= ROWS * (ROW_BYTES + 16)
    assert estimate(found, "k") <= 7 * (ROW_BYTES + 16)
    with pytest.raises(TooLarge) as error:
        estimated_keys(found, [["s"]], 1 << 20)
    assert str(error.value) == "its keys take some 1 MB in the driver, more than hive_bitmap.answer_bytes"


def test_all_sets_of_keys_are_held_together(tmp_path: Path) -> None:
    found = looked_up(tmp_path, rows(range(ROWS)))
    alone = estimate(found, "s")
    estimated_keys(found, [["s"]], alone)
    with pytest.raises(TooLarge):
        estimated_keys(found, [["s"], ["s"]], 2 * alone - 1)
    estimated_keys(found, [["s"], [], ["s"]], 2 * alone)


def test_few_rows_or_no_keys_are_never_too_large(tmp_path: Path) -> None:
    few = looked_up(tmp_path, rows(range(FEW_ROWS)))
    estimated_keys(few, [["s"]], 0)
    estimated_keys(few, [], 0)
    (tmp_path / "more").mkdir()
    more = looked_up(tmp_path / "more", rows(range(FEW_ROWS + 1)))
    estimated_keys(more, [[]], 0)
    assert not fits(more, 0, "s")


def test_keys_of_two_shards_are_added_only_if_they_cannot_be_the_same(tmp_path: Path) -> None:
    for name in ("same", "apart"):
        (tmp_path / name).mkdir()
    same = looked_up(tmp_path / "same", rows(range(ROWS)), rows(range(ROWS)), together=False)
    apart = looked_up(tmp_path / "apart", rows(range(ROWS)), rows(range(ROWS, 2 * ROWS)), together=False)
    assert ROWS * (ROW_BYTES + 8) <= estimate(same, "s") <= ROWS * (ROW_BYTES + 16)
    assert 2 * ROWS * (ROW_BYTES + 8) <= estimate(apart, "s") <= 2 * ROWS * (ROW_BYTES + 16)


def test_a_key_that_the_predicate_tests_has_its_share_of_values(tmp_path: Path) -> None:
    """Half of the rows have half of the keys if the key is what is tested; else all keys may be among them."""
    keys = ROWS // 3
    thrice = [{**row, "k": number % 2} for number, row in enumerate(rows(range(keys)) * 3)]
    for folder, predicate, count in (
        ("key", Compare("s", "<", f"{keys // 2:08d}"), keys // 2),
        ("other", Compare("k", "=", 1), keys),
    ):
        (tmp_path / folder).mkdir()
        found = looked_up(tmp_path / folder, thrice, predicate=predicate)
        assert int(found.results[0].counts.sum()) == ROWS // 2
        assert count * (ROW_BYTES + 8) <= estimate(found, "s") <= count * (ROW_BYTES + 16)


def test_files_that_an_index_of_the_keys_does_not_know_add_nothing(tmp_path: Path) -> None:
    """Another index knows them: their keys are counted by Spark."""
    found = looked_up(tmp_path, rows(range(ROWS)))
    [lookup] = found.lookups
    unknown = replace(lookup.unit.parts["s"], shards=(), entries=0)
    elsewhere = replace(lookup, unit=replace(lookup.unit, parts={**lookup.unit.parts, "s": unknown}))
    assert estimate(replace(found, lookups=(elsewhere,)), "s") == 0
    both = replace(found, lookups=(lookup, elsewhere), results=found.results * 2)
    assert estimate(both, "s") == estimate(found, "s")


def test_an_index_that_is_damaged_refuses_nothing(tmp_path: Path) -> None:
    """Its files are read whole, and no answer comes from it."""
    found = looked_up(tmp_path, rows(range(ROWS)))
    for shard in tmp_path.glob("0/part-*.parquet"):
        shard.unlink()
    shards.clear_caches()
    assert fits(found, 0, "s")


def test_what_was_too_large_is_remembered_of_these_keys_shards_predicate_and_limit(tmp_path: Path) -> None:
    found = looked_up(tmp_path, rows(range(ROWS)))
    limit = 1 << 30
    estimated_keys(found, [["s"]], limit)
    remember_too_large(found.lookups, [["s"]], limit)
    with pytest.raises(TooLarge) as error:
        estimated_keys(found, [["s"]], limit)
    assert str(error.value) == (
        "its keys take more than hive_bitmap.answer_bytes in the driver, 1,073,741,824 bytes here"
    )
    assert fits(found, limit, "k") and fits(found, limit + 1, "s")
    [lookup] = found.lookups
    assert fits(replace(found, lookups=(replace(lookup, predicate=Compare("k", "=", 1)),)), limit, "s")
    part = lookup.unit.parts["s"]
    anew = replace(part, shards=((f"{part.shards[0][0]}x", 1),))  # the index was built again
    unit = replace(lookup.unit, parts={**lookup.unit.parts, "s": anew})
    assert fits(replace(found, lookups=(replace(lookup, unit=unit),)), limit, "s")


def test_the_bytes_of_an_answer_are_those_of_its_values_and_rows() -> None:
    keys = pa.table({"k": pa.array([1, 2, 3], pa.int64())})
    assert nbytes(keys) == 3 * (8 + ROW_BYTES) and nbytes(keys.slice(0, 0)) == 0
