"""What a server is asked of its partitions, and what of its answer is believed."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.columns import Column
from hive_bitmap.core.planning.planner import EngineSkips, PlanInputs, make_plan
from hive_bitmap.core.selecting.candidates import LookupResults
from hive_bitmap.core.table_info import Values
from hive_bitmap.errors import Unsupported
from hive_bitmap.hive.hiveserver.hiveql import MOST_VALUES
from hive_bitmap.hive.hiveserver.server_queries import partition_condition, require_fresh
from tests.core.planning.test_planner import looked_up, with_new_file

P, Q, R, D = Column("p", "int"), Column("q", "string"), Column("r", "bigint"), Column("d", "date")


@pytest.mark.parametrize(
    ("columns", "partitions", "said"),
    [
        ([], [], ""),
        ([], [()], ""),
        ([P], [], ""),
        ([P], [("2",), ("1",), ("2",)], "`p` IN (1, 2)"),
        ([P], [("-7",), ("01",)], "`p` IN (-7, 1)"),
        ([P, Q], [("1", "a"), ("2", "b")], "`p` IN (1, 2) AND `q` IN ('a', 'b')"),
        ([P, Q], [("1", None), ("2", "b")], "`p` IN (1, 2)"),  # NULL is in no IN
        ([P, Q], [("1", "it's")], "`p` IN (1)"),  # servers read the quote differently
        ([D, R], [("2024-01-01", "5")], "`r` IN (5)"),
        # texts that Python takes for a number, and a server for NULL or nothing
        ([P, Q], [("1_000", "a")], "`q` IN ('a')"),
        ([P, Q], [(" 1", "a")], "`q` IN ('a')"),
        ([P, Q], [("\u0663", "a")], "`q` IN ('a')"),
        ([P, Q], [("abc", "a")], "`q` IN ('a')"),
        ([P, Q], [("", "a")], "`q` IN ('a')"),
        ([Column("a `p", "int")], [("1",)], "`a ``p` IN (1)"),
    ],
)
def test_a_condition_on_partitions(columns: Sequence[Column], partitions: Sequence[Values], said: str) -> None:
    assert partition_condition(columns, partitions) == said


@pytest.mark.parametrize(("count", "limited"), [(MOST_VALUES, True), (MOST_VALUES + 1, False)])
def test_many_partitions_are_not_listed(count: int, limited: bool) -> None:
    assert bool(partition_condition([P], [(str(number),) for number in range(count)])) is limited


TEXTS = st.none() | st.sampled_from(["1", "2", "-3", "007", "1_0", "x", ""])


@settings(max_examples=60)
@given(st.lists(st.tuples(TEXTS, st.none() | st.sampled_from(["a", "b", "it's", "é", ""])), max_size=5))
def test_no_partition_that_is_wanted_is_left_out(partitions: list[Values]) -> None:
    """DuckDB evaluates the condition over the values as a server has them."""
    said = partition_condition([P, Q], partitions).replace("`", '"') or "TRUE"
    for p, q in partitions:
        values = "SELECT TRY_CAST(NULLIF(?, '1_0') AS INT) AS p, CAST(? AS VARCHAR) AS q"
        [(kept,)] = duckdb.execute(f"SELECT coalesce({said}, FALSE) FROM ({values})", [p, q]).fetchall()
        assert kept, (said, p, q)


def test_files_that_are_not_indexed_as_they_are_now() -> None:
    inputs = PlanInputs(
        table="db.t",
        predicate="k = 1",
        format="parquet",
        cores=1,
        count=True,
        columns=frozenset({"k"}),
        schemas={7: frozenset({"k"})},
        engine_skips=EngineSkips.BLOCKS,
    )

    def require(work: LookupResults) -> None:
        require_fresh(make_plan(inputs, (), work))

    require(looked_up([5, 0], [0, 0]))
    require(looked_up())
    with pytest.raises(Unsupported) as raised:
        require(with_new_file(looked_up([5, 0]), blocks=1))
    assert str(raised.value).startswith("1 files of db.t are not indexed in their current version, like file:/w/new (")
    with pytest.raises(Unsupported, match=r"^2 files of .*, like file:/w/0 \(gone\): rebuild the index"):
        require(looked_up([5, 0], [0, 0], damaged=(0, 1)))
