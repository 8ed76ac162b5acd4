"""The bounds of columns in each block: they enclose the values, and are missing where statistics are not certain."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.formats import FORMATS
from hive_bitmap.core.formats.blocks import known_bounds
from hive_bitmap.core.formats.key_values import KeyColumn
from hive_bitmap.errors import Undecodable

UTC = datetime.timezone.utc
DAY = 86_400_000_000
OLD, NEW = datetime.date(1582, 10, 14), datetime.date(1582, 10, 15)
TYPES = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "date": pa.date32(),
}
TIMES = {"timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us")}


def written(tmp_path: Path, format: str, table: pa.Table, **options: object) -> str:
    path = tmp_path / f"a.{format}"
    if format == "orc":
        orc.write_table(table, path, **options)
    else:
        pq.write_table(table, path, **options)
    return f"file:{path}"


def bounds_of(format: str, path: str, *columns: KeyColumn) -> dict[str, list[tuple[int, int, int]]]:
    reader = FORMATS[format]
    found = reader.bounds(reader.open_file(path), columns)
    return {
        name: list(zip(*(part.tolist() for part in (of.nulls, of.low, of.high)), strict=True))
        for name, of in found.items()
    }


@pytest.mark.parametrize(
    ("format", "type"),
    [*(("parquet", type) for type in (*TYPES, *TIMES)), *(("orc", type) for type in TYPES)],
)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_bounds_are_those_of_the_values(
    tmp_path_factory: pytest.TempPathFactory, format: str, type: str, data: st.DataObject
) -> None:
    arrow = {**TYPES, **TIMES}[type]
    width = 8 if type in TIMES else arrow.bit_width // 8
    low, high = -(2 ** (8 * width - 1)), 2 ** (8 * width - 1) - 1
    if type == "date":
        low, high = -141_427, 2_000_000
    elif type in TIMES:
        low, high = -25_567 * DAY, 200_000 * DAY
    numbers = data.draw(st.lists(st.none() | st.integers(low, high), min_size=1, max_size=9))
    storage = pa.int32() if type == "date" else pa.int64() if type in TIMES else arrow
    table = pa.table({"C": pa.array(numbers, storage).cast(arrow)})
    path = written(tmp_path_factory.mktemp("b"), format, table)
    values = [number for number in numbers if number is not None]
    wanted = (len(numbers) - len(values), min(values, default=0), max(values, default=0))
    assert bounds_of(format, path, KeyColumn("c", type)) == {"c": [wanted]}


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_each_block_has_its_own_bounds(tmp_path: Path, format: str) -> None:
    options = {"row_group_size": 100_000} if format == "parquet" else {"stripe_size": 1, "compression": "uncompressed"}
    numbers = np.arange(300_000)
    table = pa.table({"n": numbers, "pad": [f"{n * 7919 % 1_000_003:020}" for n in numbers.tolist()]})
    path = written(tmp_path, format, table, **options)
    rows = FORMATS[format].blocks(FORMATS[format].open_file(path)).rows
    ends = np.cumsum(rows)
    wanted = [(0, end - count, end - 1) for count, end in zip(rows.tolist(), ends.tolist(), strict=True)]
    assert len(wanted) > 2
    assert bounds_of(format, path, KeyColumn("n", "bigint"), KeyColumn("pad", "string")) == {"n": wanted}


@pytest.mark.parametrize("format", ["parquet", "orc"])
@pytest.mark.parametrize(("day", "is_known"), [(NEW, True), (OLD, False)])
def test_days_of_the_old_calendar_have_no_bounds(
    tmp_path: Path, format: str, day: datetime.date, is_known: bool
) -> None:
    path = written(tmp_path, format, pa.table({"d": [day, datetime.date(2026, 1, 1), None]}))
    [found] = bounds_of(format, path, KeyColumn("d", "date"))["d"]
    assert found == ((1, -141_427, 20_454) if is_known else (-1, 0, 0))


@pytest.mark.parametrize("unit", ["ms", "us", "int96"])
@pytest.mark.parametrize("year", [1899, 1900])
def test_timestamps_from_1900_have_bounds(tmp_path: Path, unit: str, year: int) -> None:
    moments = [datetime.datetime(year, 1, 1, tzinfo=UTC), datetime.datetime(2026, 1, 1, 12, tzinfo=UTC), None]
    table = pa.table({"t": pa.array(moments, pa.timestamp("us", "UTC"))})
    options = {"use_deprecated_int96_timestamps": True} if unit == "int96" else {"coerce_timestamps": unit}
    path = written(tmp_path, "parquet", table, **options)
    [found] = bounds_of("parquet", path, KeyColumn("t", "timestamp"))["t"]
    assert found == ((1, -25_567 * DAY, 20_454 * DAY + DAY // 2) if year == 1900 else (-1, 0, 0))


@pytest.mark.parametrize(
    ("format", "values", "type"),
    [
        ("parquet", pa.array([1, 2], pa.int32()), "smallint"),  # it may be too large, and is cut
        ("parquet", pa.array([1, 2], pa.uint32()), "bigint"),
        ("parquet", pa.array([1.5]), "double"),
        ("parquet", pa.array([datetime.datetime(2026, 1, 1)], pa.timestamp("us")), "timestamp"),
        ("parquet", pa.array([datetime.datetime(2026, 1, 1)], pa.timestamp("us", "UTC")), "timestamp_ntz"),
        ("parquet", pa.array([1, 2], pa.int64()), "date"),
        ("orc", pa.array([1, 2], pa.int64()), "int"),
        ("orc", pa.array([datetime.datetime(2026, 1, 1)], pa.timestamp("us")), "timestamp"),
    ],
)
def test_columns_without_certain_bounds(tmp_path: Path, format: str, values: pa.Array, type: str) -> None:
    path = written(tmp_path, format, pa.table({"c": values, "n": pa.array(range(len(values)), pa.int64())}))
    columns = KeyColumn("c", type, time_zone="UTC"), KeyColumn("n", "bigint"), KeyColumn("added", "bigint")
    assert bounds_of(format, path, *columns) == {"n": [(0, 0, len(values) - 1)]}


def test_integers_that_are_widened_have_bounds(tmp_path: Path) -> None:
    table = pa.table({"n": pa.array([-3, None, 5], pa.int8())})
    for format in ("parquet", "orc"):
        path = written(tmp_path, format, table)
        assert bounds_of(format, path, KeyColumn("N", "bigint")) == {"N": [(1, -3, 5)]}


def test_a_file_without_statistics_has_no_bounds(tmp_path: Path) -> None:
    path = written(tmp_path, "parquet", pa.table({"n": [1, 2]}), write_statistics=False)
    assert bounds_of("parquet", path, KeyColumn("n", "bigint")) == {"n": [(-1, 0, 0)]}


def test_damaged_statistics_of_stripes_are_no_bounds(tmp_path: Path) -> None:
    path = written(tmp_path, "orc", pa.table({"n": [1, 2]}), compression="uncompressed")
    data = Path(path[5:]).read_bytes()
    column = KeyColumn("n", "bigint")
    found, same, damaged = bounds_of("orc", path, column), 0, 0
    assert found == {"n": [(0, 1, 2)]}
    tail = len(data) - 1 - data[-1]
    for place in range(tail - 120, tail):  # statistics and footer
        changed = bytearray(data)
        changed[place] ^= 0xFF
        Path(path[5:]).write_bytes(changed)
        try:
            handle = FORMATS["orc"].open_file(path)
        except Undecodable:  # the footer itself is damaged, which other tests are about
            continue
        of = FORMATS["orc"].bounds(handle, [column])
        same, damaged = same + bool(of), damaged + (not of)
    assert same
    assert damaged


@pytest.mark.parametrize(
    ("nulls", "low", "high", "floor", "is_known"),
    [
        (0, 1, 1, None, True),
        (3, None, None, 9, True),  # all are NULL
        (0, None, 1, None, False),
        (0, 2, 1, None, False),
        (-1, 1, 1, None, False),
        (4, 1, 1, None, False),
        (0, 1, 2**63, None, False),
        (0, 1, 2, 2, False),
    ],
)
def test_statistics_that_contradict_each_other(
    nulls: int, low: int | None, high: int | None, floor: int | None, is_known: bool
) -> None:
    assert (known_bounds(3, nulls, low, high, floor) is not None) == is_known
