"""Test the parts of the demo that do not need Spark: its data, its counts of what is read, and clearing its folder."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from demo import flights
from demo.__main__ import _clear
from demo.questions import _blocks_read, _sorted
from hive_bitmap.core.planning.plan import FILES_SCHEMA, Plan


def test_flights_are_those_of_2013_with_the_cancelled_ones_null() -> None:
    table = flights.read()
    assert table.schema == pa.schema(list(flights.COLUMNS.items()))
    assert (len(table), table["dep_time"].null_count, table["tailnum"].null_count) == (336_776, 8_255, 2_512)
    assert pc.unique(table["year"]).to_pylist() == [2013]
    assert pc.min_max(table["month"]).as_py() == {"min": 1, "max": 12}


@pytest.mark.parametrize(
    ("strategy", "rows_selected", "expected"),
    [
        ("full scan", 5, 10),
        ("files", 5, 4),
        ("rows", 5, 3),
        ("blocks", None, 3),
        ("index only", 5, 0),
        ("index only", None, 3),
    ],
)
def test_what_is_read_follows_the_strategy(strategy: str, rows_selected: int | None, expected: int) -> None:
    columns = [["a", "b"], ["", ""], ["fresh", "stale"], ["", ""], [300, 700], [False, True], [6, 4]]
    files = pa.Table.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, FILES_SCHEMA, strict=True)], schema=FILES_SCHEMA
    )
    plan = Plan(
        table="t",
        predicate="p",
        strategy=strategy,
        reason="",
        files=files,
        blocks_total=10,
        blocks_selected=3,
        bytes_total=1000,
        bytes_selected=300,
        rows_selected=rows_selected,
    )
    assert _blocks_read(plan) == expected


def test_rows_are_compared_as_multisets() -> None:
    left, right = pa.table({"a": [2, None, 1, 1]}), pa.table({"a": [1, 2, 1, None]})
    assert _sorted(left).equals(_sorted(right))
    assert not _sorted(left).equals(_sorted(pa.table({"a": [1, 2, 2, None]})))


def test_only_a_warehouse_is_cleared(tmp_path: Path) -> None:
    _clear(tmp_path / "nothing")
    warehouse, other = tmp_path / "warehouse", tmp_path / "other"
    (warehouse / ".metastore").mkdir(parents=True)
    other.mkdir()
    _clear(warehouse)
    assert not warehouse.exists()
    with pytest.raises(SystemExit, match="is not a warehouse of this demo"):
        _clear(other)
    assert other.exists()
