"""What an index saves at the planner's prices: against the planner's own figures for an index that exists."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.columns import Column
from hive_bitmap.core.planning.prices import Prices
from hive_bitmap.core.samples.extrapolate import Spread
from hive_bitmap.core.stores.speed import Speed
from hive_bitmap.spark.advising.gains import Gain, TableFigures, gain, gain_by_answers, reads_of_test
from hive_bitmap.spark.advising.observed import ColumnTest, Kind, Tally

COLUMNS = (Column("k", "bigint"), Column("v", "bigint"))
TABLE = TableFigures(
    format="parquet",
    cores=2,
    columns=COLUMNS,
    bytes=10**9,
    files=10,
    blocks=80,
    rows=10**7,
    index_bytes=10**6,
    key=Spread(0.1, 1e-5),
)
EQUAL, RANGE = ColumnTest("k", Kind.EQUALITY, 1), ColumnTest("k", Kind.RANGE, 0)


def tally(queries: int = 1, size: int = 10**9, **figures: int) -> Tally:
    return Tally(queries=queries, bytes=queries * size, columns=Counter({"*": queries}), **figures)


def test_an_answer_saves_the_whole_scan() -> None:
    assert gain(tally(3), TABLE, None) == Gain(3 * 10**9, pytest.approx(3 * Prices("parquet", 2).scan(10**9, 10)))
    found = gain_by_answers(tally(3), TABLE, 1)
    assert found.bytes == 3 * 10**9 and found.seconds < gain(tally(3), TABLE, None).seconds


def test_scans_of_many_small_values_take_longer_than_their_bytes() -> None:
    """As the planner has it: the table of the demo, of many small values, takes Spark several times as long."""
    small = replace(TABLE, format="orc", rows=10**9)
    plain = replace(small, rows=10**7)
    assert gain(tally(), small, None).seconds > 2 * gain(tally(), plain, None).seconds


def test_too_many_keys_are_not_answered() -> None:
    assert gain_by_answers(tally(), replace(TABLE, index_bytes=10**9), 1) == Gain()
    assert gain_by_answers(tally(), replace(TABLE, key=Spread(0.1, 1e-7)), 1) == Gain()


def test_an_equality_saves_the_blocks_without_its_key() -> None:
    found = gain(tally(), TABLE, EQUAL)
    assert found.bytes == pytest.approx(0.9 * 10**9, rel=0.02)
    assert 0 < found.seconds < Prices("parquet", 2).scan(10**9, 10)
    assert gain(tally(), TABLE, replace(EQUAL, kind=Kind.IN, values=4)).bytes < found.bytes
    assert gain(tally(), TABLE, RANGE) == Gain()  # a third of the keys is in every block


def test_what_is_too_small_or_served_or_not_selective_saves_nothing() -> None:
    assert gain(tally(size=10**6), TABLE, EQUAL) == Gain()
    assert gain(Tally(served=5), TABLE, EQUAL) == Gain()
    assert gain(tally(), replace(TABLE, key=Spread(1.0, 0.5)), EQUAL) == Gain()
    assert gain(tally(), replace(TABLE, blocks=0), EQUAL) == Gain()


def test_a_query_of_unknown_size_reads_the_table() -> None:
    assert gain(Tally(queries=1, unsized=1, columns=Counter({"*": 1})), TABLE, EQUAL) == gain(tally(), TABLE, EQUAL)


def test_few_columns_save_less_time() -> None:
    half = Tally(queries=1, bytes=10**9, columns=Counter({"v": 1}))
    assert 0 < gain(half, TABLE, EQUAL).seconds < gain(tally(), TABLE, EQUAL).seconds


def test_a_slow_store_saves_more_time() -> None:
    slow = replace(TABLE, store=Speed(0.03, 1e-8))
    assert gain(tally(), slow, EQUAL).seconds > gain(tally(), TABLE, EQUAL).seconds


def test_values_that_are_asked_for_count_instead_of_an_average_key() -> None:
    frequent = replace(TABLE, value=Spread(1.0, 0.3))
    assert gain(tally(), frequent, EQUAL) == Gain()
    assert gain(tally(), replace(TABLE, key=Spread(1.0, 0.3), value=Spread(0.1, 1e-5)), EQUAL).bytes > 0


@given(
    st.sampled_from(["parquet", "orc", "text"]),
    st.integers(1, 50_000),
    st.integers(1, 3000),
    st.floats(1e-9, 1),
    st.floats(1e-9, 1),
    st.sampled_from([None, EQUAL, RANGE, ColumnTest("k", Kind.IN, 64), ColumnTest("k", Kind.NULL, 0)]),
    st.integers(1, 10**13),
)
def test_no_more_is_read_or_saved_than_there_is(
    format: str, blocks: int, files: int, of_blocks: float, of_rows: float, test: ColumnTest | None, size: int
) -> None:
    key = Spread(max(of_blocks, 1 / blocks), of_rows)
    table = replace(TABLE, format=format, blocks=blocks, files=min(files, blocks), key=key, bytes=max(size, blocks))
    read = reads_of_test(table, test)
    assert 0 <= read.blocks <= 1.01 * read.total + blocks and 1 <= read.rows <= 1.01 * table.rows + blocks
    assert read.files == table.files and read.opened <= read.files
    saved = gain(tally(size=table.bytes), table, test)
    assert 0 <= saved.bytes <= table.bytes and saved.seconds >= 0
