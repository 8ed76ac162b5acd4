"""Which strategy a plan takes, as a table of cases: files and blocks are given as figures, without Spark or files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hive_bitmap.core.index.fingerprint import Fingerprint
from hive_bitmap.core.index.manifest import Freshness
from hive_bitmap.core.nested_types import parse
from hive_bitmap.core.planning.planner import EngineSkips, PlanInputs, make_plan
from hive_bitmap.core.planning.prices import reads
from hive_bitmap.core.planning.strategy import Reason, Strategy
from hive_bitmap.core.predicates.nodes import Compare
from hive_bitmap.core.selecting.candidates import LookupResults, WholeFile
from hive_bitmap.core.selecting.lookup_units import LookupUnit
from hive_bitmap.core.selecting.select import LookupResult
from hive_bitmap.core.selecting.table_files import PartitionState
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.stores.speed import Speed
from hive_bitmap.errors import CorruptIndex
from tests.core.selecting.lookups import lookup_of, with_column

BLOCKS, ROWS, BYTES = 8, 1_000_000, 128 << 20  # of a file, of a block
INPUTS = PlanInputs(
    table="db.t",
    predicate="k = 1",
    format="parquet",
    cores=2,
    columns=frozenset({"k", "v"}),
    schemas={7: frozenset({"k", "v"}), 6: frozenset({"k"})},
    engine_skips=EngineSkips.BLOCKS,
)
PARTITION = PartitionState(name="", values=(), files=())


def looked_up(*files: list[int], exact: bool = True, damaged: tuple[int, ...] = (), **lookup: Any) -> LookupResults:
    """What the index says of files, each given by the number of selected rows of its blocks."""
    numbers = np.repeat(np.arange(len(files)), [len(blocks) for blocks in files])
    total = len(numbers)
    unit = LookupUnit(
        paths=tuple(f"file:/w/{number}" for number in range(len(files))),
        file=numbers,
        offset=np.arange(total) * BYTES,
        length=np.full(total, BYTES),
        rows=np.full(total, ROWS),
        parts={},
    )
    fields: dict[str, Any] = {
        "fingerprints": tuple(
            Fingerprint(path=path, size=len(blocks) * BYTES, mtime_ms=0, etag="", tail_crc32=0)
            for path, blocks in zip(unit.paths, files, strict=True)
        ),
        "schema_crc": (7,) * len(files),
        "foreign": (frozenset(),) * len(files),
    }
    result = LookupResult(
        counts=np.array([count for blocks in files for count in blocks], np.int64),
        exact=np.full(len(files), exact),
        damaged={number: CorruptIndex("gone") for number in damaged},
        index_bytes=5,
    )
    lookups = (lookup_of(unit, Compare("k", "=", 1), **(fields | lookup)),)
    return LookupResults(partitions=(PARTITION,), lookups=lookups, results=(result,), whole_files=(), deleted=3)


def with_new_file(work: LookupResults, blocks: int = 8) -> LookupResults:
    status = FileStatus("file:/w/new", blocks * BYTES, 0, "")
    return replace(work, whole_files=(WholeFile(0, status, Freshness.UNINDEXED, ""),))


FEW = [[5] + [0] * (BLOCKS - 1)] * 4
ALL = [[ROWS] * BLOCKS] * 4
HALF_OF_THE_FILES = [[ROWS] * BLOCKS, [0] * BLOCKS] * 4


@pytest.mark.parametrize(
    ("inputs", "work", "strategy"),
    [
        (INPUTS, looked_up(*FEW), Strategy.ROWS),
        (INPUTS, looked_up(*ALL), Strategy.FULL_SCAN),
        (INPUTS, looked_up(*HALF_OF_THE_FILES), Strategy.FILES),
        (INPUTS, looked_up(*[[ROWS // 2, 0] * (BLOCKS // 2)] * 4), Strategy.BLOCKS),
        (INPUTS, with_new_file(looked_up(*FEW), blocks=800), Strategy.FULL_SCAN),  # what is new outweighs the rest
        (replace(INPUTS, limit=5), looked_up(*ALL), Strategy.FULL_SCAN),
        (replace(INPUTS, limit=5), looked_up(*FEW), Strategy.BLOCKS),
        (replace(INPUTS, limit=5, count=True), looked_up(*ALL), Strategy.FULL_SCAN),
        (replace(INPUTS, format="orc"), looked_up(*FEW), Strategy.ROWS),
        (replace(INPUTS, count=True), looked_up(*FEW), Strategy.INDEX_ONLY),
        (replace(INPUTS, count=True), looked_up(*ALL), Strategy.INDEX_ONLY),
        (replace(INPUTS, count=True), looked_up(*ALL, exact=False), Strategy.FULL_SCAN),
        (replace(INPUTS, count=True, engine_reads_only=True), looked_up(*FEW), Strategy.FULL_SCAN),
        # formats that Spark alone reads, or whose reader can be told nothing
        (replace(INPUTS, format="textfile", engine_skips=EngineSkips.SPLITS), looked_up(*FEW), Strategy.BLOCKS),
        (
            replace(INPUTS, engine_skips=EngineSkips.NOTHING, engine_reads_only=True),
            looked_up(*FEW),
            Strategy.FULL_SCAN,
        ),
    ],
)
def test_the_cheapest_strategy_is_taken(inputs: PlanInputs, work: LookupResults, strategy: Strategy) -> None:
    plan = make_plan(inputs, (), work)
    assert plan.strategy is strategy, plan.costs
    assert strategy is min(plan.costs, key=lambda one: plan.costs[one]) or strategy is Strategy.FULL_SCAN


@pytest.mark.parametrize(
    ("files", "limit", "total"),
    [
        (ALL, None, 32),  # blocks
        (ALL, 8 * ROWS, 8),
        (ALL, 1, 0),
        (ALL, 99 * ROWS, 32),
        ([[0, 0, ROWS]], ROWS // 2, 2.5),  # the gap before them, half of it on average, and half of all
        ([[0, 0, ROWS, 0, 0]], ROWS // 10, 2.5),
        ([[0, 0, 0]], 1, 3),
    ],
)
def test_what_is_read_until_a_limit(files: list[list[int]], limit: int | None, total: float) -> None:
    plan = make_plan(INPUTS, (), looked_up(*files))
    all_of_it = reads("parquet", plan.files, plan.blocks, splits=False)
    found = all_of_it.until(limit)
    assert found.total == pytest.approx(total * BYTES, abs=BYTES // 100)
    assert found.files >= 1 and found.total <= all_of_it.total
    narrowed = all_of_it.until(limit, narrowed=True)
    assert narrowed.blocks <= all_of_it.blocks and narrowed.total <= found.total


def test_the_first_rows_are_read_by_one_task() -> None:
    """With a limit, more cores make a scan no cheaper until its first split is read."""

    def price(limit: int | None, cores: int) -> float:
        return make_plan(replace(INPUTS, limit=limit, cores=cores), (), looked_up(*ALL)).costs[Strategy.FULL_SCAN]

    for limit in (1, ROWS // 10):
        assert price(limit, 4) == price(limit, 1) < price(None, 4)
    assert price(31 * ROWS, 4) < price(31 * ROWS, 1)


def test_a_row_of_a_fresh_file_makes_new_files_irrelevant() -> None:
    """Only for a query of the first rows, and only if the row certainly matches."""

    def price(limit: int | None, work: LookupResults) -> float:
        plan = make_plan(replace(INPUTS, limit=limit, count=True), (), with_new_file(work))
        return plan.costs[Strategy.INDEX_ONLY]

    assert price(1, looked_up(*FEW)) == INPUTS.answer_seconds < price(None, looked_up(*FEW))
    for work in (looked_up(*FEW, exact=False), looked_up(*[[0] * BLOCKS] * 4)):
        assert price(1, work) > INPUTS.answer_seconds


def test_a_limit_is_the_reason() -> None:
    plan = make_plan(replace(INPUTS, limit=ROWS), (), looked_up(*ALL))
    assert (plan.strategy, plan.code) == (Strategy.FULL_SCAN, Reason.LIMIT)
    assert plan.reason == "Spark stops once it has the first rows, after reading about 3.1% of the table"
    assert make_plan(replace(INPUTS, limit=99 * ROWS), (), looked_up(*ALL)).code is None


@pytest.mark.parametrize(
    ("lookup", "why"),
    [
        ({"schema_crc": (7, 8, 7, 7)}, "columns of the table were changed, moved or dropped since the index was built"),
        ({"schema_crc": (7, 6, 7, 7)}, None),  # column v was added, and is in none of the files
        ({"schema_crc": (6,) * 4, "foreign": (None,) * 4}, "column 'v' was added since the index was built"),
        ({"schema_crc": (6,) * 4, "foreign": (frozenset({"v"}),) * 4}, "column 'v' was added since"),
        ({"foreign": (None,) * 4}, None),  # of an older build, with the columns of now
        ({"spark_only": (frozenset({"v"}),) * 4}, "only Spark reads column 'v' of these files correctly"),
        ({"spark_only": (frozenset({"other"}),) * 4}, None),  # a column that is not read
    ],
)
def test_files_that_tasks_of_ours_cannot_read(lookup: dict[str, Any], why: str | None) -> None:
    plan = make_plan(replace(INPUTS, count=True), (), looked_up(*FEW, exact=False, **lookup))
    assert (Strategy.INDEX_ONLY not in plan.costs) == (why is not None)
    assert why is None or why in plan.reason
    rows = make_plan(INPUTS, (), looked_up(*FEW, **lookup))
    assert (Strategy.ROWS not in rows.costs) == (why is not None)
    assert rows.strategy is (Strategy.ROWS if why is None else Strategy.BLOCKS)


@pytest.mark.parametrize(
    ("marks", "spark_only", "why"),
    [
        (["v"], ["v"], None),
        (["v", "v.b!", "v.c?"], ["v"], None),
        (["v", "v.a!"], ["v"], "only Spark reads 'v.a'"),
        (["v", "v.a?"], ["v"], "none of the fields of 'v'"),
        ([], ["v"], "only Spark reads column 'v'"),
        (None, ["v"], "only Spark reads column 'v'"),  # of an older build
        (["v"], ["v", "k"], "only Spark reads column 'k'"),
    ],
)
def test_nested_columns_that_tasks_read(marks: list[str] | None, spark_only: list[str], why: str | None) -> None:
    found = looked_up(*FEW, spark_only=(frozenset(spark_only),) * 4)
    found = replace(found, lookups=tuple(with_column(lookup, "nested", [marks] * 4) for lookup in found.lookups))
    nested = parse("struct<a:int>")
    assert nested is not None
    plan = make_plan(replace(INPUTS, columns=frozenset({"k", "v"}), nested={"v": nested}), (), found)
    assert (Strategy.ROWS not in plan.costs) == (why is not None)


def test_what_need_not_be_opened_may_be_unreadable() -> None:
    """A count that is exact opens no file, whatever became of the table's columns."""
    plan = make_plan(replace(INPUTS, count=True), (), looked_up(*FEW, schema_crc=(8,) * 4))
    assert (plan.strategy, plan.costs[Strategy.INDEX_ONLY]) == (Strategy.INDEX_ONLY, 0.0)


def test_the_figures_of_a_plan() -> None:
    plan = make_plan(INPUTS, (), looked_up([5, 0, 2], [0, 0, 0]))
    assert (plan.blocks_selected, plan.blocks_total) == (2, 6)
    assert (plan.rows_selected, plan.rows_total) == (7, 6 * ROWS)
    assert (plan.bytes_selected, plan.bytes_total) == (2 * BYTES, 6 * BYTES)
    assert (plan.index_bytes, plan.deleted) == (5, 3)
    assert plan.files["scanned"].to_pylist() == [False, False]
    assert plan.blocks["selected"].to_pylist() == [5, 0, 2, 0, 0, 0]


def test_figures_that_are_not_known() -> None:
    assert make_plan(INPUTS, (), looked_up([5, 0], exact=False)).rows_selected is None  # an upper bound
    plan = make_plan(INPUTS, (), with_new_file(looked_up([5, 0]), blocks=1))
    assert (plan.rows_selected, plan.rows_total) == (None, None)
    assert (plan.blocks_selected, plan.blocks_total) == (2, 3)  # a file that is read whole counts as one block


def test_a_damaged_file_is_read_whole() -> None:
    plan = make_plan(INPUTS, (), looked_up([5, 0], [0, 0], damaged=(1,)))
    assert plan.files["scanned"].to_pylist() == [False, True]
    assert (plan.files["state"].to_pylist()[1], plan.files["reason"].to_pylist()[1]) == ("unindexed", "gone")


def test_a_sample_is_priced_as_the_table() -> None:
    work = looked_up(*FEW)
    one, many = (make_plan(replace(INPUTS, scale=scale), (), work).costs for scale in (1.0, 10.0))
    assert all(many[strategy] > one[strategy] for strategy in one)


def test_few_rows_are_work_for_one_task_and_many_for_many() -> None:
    small = replace(INPUTS, scale=0.002)
    assert make_plan(small, (), looked_up(*FEW)).row_tasks == 1
    large = replace(INPUTS, scale=1000.0)
    assert make_plan(large, (), looked_up(*ALL)).row_tasks > 100
    slow = replace(INPUTS, scale=1.0, store=Speed(request=0.5, byte=0.0))
    assert make_plan(slow, (), looked_up(*FEW)).row_tasks > 1
