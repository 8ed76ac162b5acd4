"""What a plan expects to decode, of blocks of which many rows are selected, few, or none."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest

from hive_bitmap.core.planning.plan import BLOCKS_SCHEMA
from hive_bitmap.core.planning.prices import ORC_STRIDE, Prices, Reads, decoded_bytes
from hive_bitmap.core.stores.speed import Speed

STRIPE_ROWS, STRIPE_BYTES = 15 * ORC_STRIDE, 3_000_000


def decoded(format: str, *selected: int, rows: int = STRIPE_ROWS) -> int:
    columns = [[0] * len(selected), [0] * len(selected), [STRIPE_BYTES] * len(selected), [rows] * len(selected)]
    return decoded_bytes(format, pa.table([*columns, list(selected)], schema=BLOCKS_SCHEMA))


def test_a_selected_block_of_parquet_is_decoded_whole() -> None:
    assert decoded("parquet", 0, 1, STRIPE_ROWS) == 2 * STRIPE_BYTES


def test_of_a_stripe_with_few_rows_only_what_lies_before_them() -> None:
    amounts = [decoded("orc", number) for number in range(17)]
    assert amounts[0] == 0
    assert all(less < more for less, more in pairwise(amounts))
    assert amounts[1] < STRIPE_BYTES / 10
    assert amounts[15] < STRIPE_BYTES / 3
    assert amounts[16] == decoded("orc", STRIPE_ROWS) == STRIPE_BYTES


def test_a_small_stripe_is_decoded_whole() -> None:
    assert decoded("orc", 1, rows=ORC_STRIDE) == STRIPE_BYTES
    assert decoded("orc", 1, rows=0) == STRIPE_BYTES


def test_stripes_are_added() -> None:
    assert decoded("orc", 3, 0, STRIPE_ROWS) == decoded("orc", 3) + STRIPE_BYTES


def test_what_is_read_at_once_nearby_is_looked_up_where_each_request_waits() -> None:
    assert Prices("parquet", 2).is_too_small(1_000_000, 5, native=True)
    assert not Prices("parquet", 2, Speed(0.03, 1e-8)).is_too_small(1_000_000, 5, native=True)


def test_a_store_adds_its_requests_and_bytes_to_each_price() -> None:
    read = Reads(
        total=50_000_000,
        whole=0,
        decoded=5_000_000,
        needed=30_000_000,
        rows=17,
        rows_of_blocks=200_000,
        blocks=5_000_000,
        ranges=12,
        files=20,
        opened=11,
    )
    near = Prices("orc", 2)
    for latency in (0.03, 0.1):
        far = Prices("orc", 2, Speed(latency, 1e-8))
        prices = [
            far.scan(read.total, read.files) - near.scan(read.total, read.files),
            far.native_files(read, 1.0) - near.native_files(read, 1.0),
            far.native(read, 1.0) - near.native(read, 1.0),
            far.direct(read, 1.0) - near.direct(read, 1.0),
        ]
        assert far.driver(read, 1.0) - near.driver(read, 1.0) > latency
        assert all(price > latency for price in prices)
        assert prices == sorted(prices, reverse=True)


def test_each_file_that_is_opened_for_rows_costs_something() -> None:
    nothing = Reads(total=9, whole=0, decoded=0, needed=9, rows=0, rows_of_blocks=0, blocks=0, ranges=0, files=101)
    one, many = replace(nothing, opened=1), replace(nothing, opened=101)
    orc, parquet = Prices("orc", 2), Prices("parquet", 2)
    assert orc.direct(many, 1.0) == pytest.approx(orc.direct(one, 1.0) + 0.25)
    assert parquet.driver(many, 1.0) == pytest.approx(parquet.driver(one, 1.0) + 0.25)


@pytest.mark.parametrize(("format", "values"), [("parquet", 1.0), ("orc", 1.0), ("orc", 0.5)])
def test_small_values_cost_more_than_their_bytes(format: str, values: float) -> None:
    """A scan of many small values, such as years and flags, takes as long as one of fewer bytes with fewer values."""
    wide = Reads(total=10**8, whole=0, decoded=10**8, needed=10**8, rows=0, rows_of_blocks=0, blocks=10**8, ranges=0)
    wide = replace(wide, stored=10**8, values=10**6)
    small = replace(wide, values=int(values * 10**8))
    prices = Prices(format, 2)
    assert prices.full_scan(wide, 1.0) == prices.scan(10**8)
    for price in (prices.full_scan, prices.native, prices.native_files, prices.engine):
        assert price(small, 1.0) > 1.5 * price(wide, 1.0)
    assert prices.direct(small, 1.0) > 1.1 * prices.direct(wide, 1.0)
    assert Prices(format, 4).full_scan(small, 1.0) < prices.full_scan(small, 1.0)
    assert small.times(0.1).values_per_byte == small.values_per_byte


@pytest.mark.parametrize(
    ("files", "rows", "size", "columns", "needed", "by_spark", "own"),
    [
        # About what was measured on two cores, by several benchmarks, less some 40 to 100 ms of planning. Prices were
        # fitted to these figures. Sizes and columns of the tables of bench.partitions are rough.
        (60, 2_000_000, 128_000_000, 14, 5, 290, None),  # bench.questions: 0.05 % of the rows
        (60, 5_000_000, 186_000_000, 13, 4, 900, 420),
        (64, 2_000_000, 134_000_000, 14, 14, 785, None),
        (10, 2_000_000, 120_000_000, 9, 9, 300, 200),  # bench: rows, Q1
        (3650, 3_650_000, 60_000_000, 5, 1, 5800, None),  # bench.partitions: groups
        (365, 3_650_000, 40_000_000, 5, 1, 1050, None),
    ],
)
def test_prices_are_within_a_factor_of_two_of_measurements(
    files: int, rows: int, size: int, columns: int, needed: int, by_spark: float, own: float | None
) -> None:
    read = Reads(
        total=size,
        whole=0,
        decoded=size,
        needed=size,
        rows=1000,
        rows_of_blocks=rows,
        blocks=size,
        ranges=files,
        files=files,
        opened=files,
        values=rows * columns,
        stored=size,
        width=columns,
    )
    prices, share = Prices("parquet", 2), needed / columns
    assert by_spark / 2 < 1000 * prices.full_scan(read, share) < 2 * by_spark
    if own is not None:
        assert own / 2 < 1000 * prices.driver(read, share) < 2 * own
