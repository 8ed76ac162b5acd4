"""From a request to its plan, over a real index in a folder and without Spark: who is served, how, and why not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hive_bitmap.core.index.definition import known_schemas
from hive_bitmap.core.planning.strategy import Reason, Strategy
from hive_bitmap.core.predicates.nodes import TRUE, Compare, Predicate
from hive_bitmap.core.segments.covered import Covered
from hive_bitmap.core.selecting.table_files import FileRecords, PartitionState, TableFiles, listing_of
from hive_bitmap.core.stores.speed import LOCAL
from hive_bitmap.core.table_info import Lake
from hive_bitmap.errors import StoreError
from hive_bitmap.spark.preparing import prepare as prepare_module
from hive_bitmap.spark.preparing.prepare import Prepared, prepare
from hive_bitmap.spark.preparing.request import Request, ResolvedTable
from hive_bitmap.spark.preparing.snapshot import Snapshot
from hive_bitmap.spark.registry.catalog import Index
from tests.spark.building.generations import K, S, Workshop

NOBODY: Any = None  # in place of a session, which is asked for nothing
FILES, BLOCKS = 3, 4
IS_FIVE = Compare("k", "=", 5)
ROWS = Request(table="db.t", predicate="k = 5", columns=("k", "s"))
COUNT = ROWS.counted()


class Shop:
    """A table of three files of eight rows, in blocks of two, with an index on k."""

    def __init__(self, folder: Path) -> None:
        self.workshop = Workshop.at(folder)
        files = [self.workshop.write(f"{number}.parquet", range(8 * number, 8 * number + 8)) for number in range(FILES)]
        _, published = self.workshop.carried_out(self.workshop.change(*files))
        schemas = dict.fromkeys([self.workshop.crc], frozenset({"k", "s"}))
        self.schemas = {**known_schemas((K, S), "UTC", ()), **schemas}
        self.partition = PartitionState(name="", values=(), files=tuple(files))
        known = FileRecords.of(Covered.by([published]), listing_of([self.partition]), np.zeros(1, np.int64))
        self.table = TableFiles(partitions=(self.partition,), records={"i": known})

    def parted(self, count: int) -> TableFiles:
        """The same files in many partitions that share a folder."""
        partitions = tuple(replace(self.partition, number=number) for number in range(count))
        covered = self.table.records["i"].covered
        known = FileRecords.of(covered, listing_of(partitions), np.zeros(count, np.int64))
        return TableFiles(partitions=partitions, records={"i": known})

    def index(self, **fields: Any) -> Index:
        return Index(definition=replace(self.workshop.definition, **fields), table=self.workshop.base)

    def resolved(
        self, predicate: Predicate = IS_FIVE, settings: Mapping[str, str] | None = None, **fields: Any
    ) -> ResolvedTable:
        given = {
            "base": self.workshop.base,
            "indexes": (self.index(),),
            "conf": {"spark.master": "local[2]", **(settings or {})},
            "predicate": predicate,
            "cores": 2,
            "partitions": (((), self.partition.files),),
            "native": True,
        }
        return ResolvedTable(**{**given, **fields})

    def prepared(self, request: Request = ROWS, **fields: Any) -> Prepared:
        resolved = self.resolved(**fields)
        snapshot = Snapshot(
            resolved=resolved,
            indexes=frozenset({"i"}),
            files=self.table,
            predicates=[resolved.predicate],
            values=pa.table({"": [0]}),
            zone="UTC",
            schemas=self.schemas,
            store=LOCAL,
        )
        return prepare(NOBODY, request, resolved, snapshot)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.mark.parametrize(
    ("fields", "code", "reason"),
    [
        ({"settings": {"hive_bitmap.enabled": "false"}}, Reason.OFF, "hive_bitmap.enabled is false"),
        ({"settings": {"hive_bitmap.strategy": "full scan"}}, Reason.OFF, "chosen by hive_bitmap.strategy"),
        ({"indexes": ()}, Reason.NO_INDEX, "the table has no index"),
        ({"predicate": Compare("s", "=", "1")}, Reason.NOT_TESTED, "no index has a column that the predicate tests"),
    ],
)
def test_what_is_left_before_anything_is_read(
    shop: Shop, fields: dict[str, Any], code: Reason, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare_module, "look_up_snapshot", lambda *_: pytest.fail("looked up"))
    prepared = shop.prepared(**fields)
    assert (prepared.plan.strategy, prepared.plan.code, prepared.plan.reason) == (Strategy.FULL_SCAN, code, reason)
    assert prepared.results is None and prepared.snapshot is None
    assert not any(use.used for use in prepared.plan.indexes)


def test_an_index_that_is_switched_off_is_named(shop: Shop) -> None:
    plan = shop.prepared(indexes=(shop.index(enabled=False),)).plan
    assert plan.code is Reason.NO_INDEX and "index i is not enabled" in plan.reason


@pytest.mark.parametrize("strategy", ["rows", "blocks", "files"])
def test_a_strategy_that_is_asked_for_is_taken(shop: Shop, strategy: str) -> None:
    prepared = shop.prepared(settings={"hive_bitmap.strategy": strategy})
    plan = prepared.plan
    assert (str(plan.strategy), plan.reason) == (strategy, "chosen by hive_bitmap.strategy")
    assert (plan.blocks_selected, plan.blocks_total, plan.rows_selected) == (1, FILES * BLOCKS, 1)
    assert prepared.results is not None and [column.name for column in prepared.columns] == ["k", "s"]
    assert [(use.name, use.reason) for use in plan.indexes] == [("i", "serves k")]


def test_a_small_table_is_not_looked_up_if_that_must_pay(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare_module, "look_up_snapshot", lambda *_: pytest.fail("looked up"))
    prepared = shop.prepared(replace(ROWS, must_pay=True))
    assert prepared.plan.code is Reason.TOO_SMALL and prepared.snapshot is not None


def test_a_sample_of_many_partitions_tells_whether_the_others_are_looked_up(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hive_bitmap.core.planning.prices.Prices.is_too_small", lambda *_, **__: False)
    looked_up = prepare_module.look_up_snapshot
    sizes: list[int] = []

    def seen(spark: Any, snapshot: Snapshot, *rest: Any) -> Any:
        sizes.append(len(snapshot.files.partitions))
        return looked_up(spark, snapshot, *rest)

    monkeypatch.setattr(prepare_module, "look_up_snapshot", seen)
    resolved = shop.resolved()
    many = Snapshot(
        resolved=resolved,
        indexes=frozenset({"i"}),
        files=shop.parted(20),
        predicates=[IS_FIVE] * 20,
        values=pa.table({"": range(20)}),
        zone="UTC",
        schemas=shop.schemas,
        store=LOCAL,
    )
    prepared = prepare(NOBODY, replace(ROWS, must_pay=True), resolved, many)
    assert sizes[0] == 8 and prepared.snapshot is many
    if len(sizes) == 1:
        assert prepared.plan.code is Reason.NOT_SELECTIVE
        assert prepared.plan.reason.startswith("in 8 of 20 partitions")


def test_counts_come_from_the_index(shop: Shop) -> None:
    forced = {"hive_bitmap.strategy": "index only"}
    for request, predicate in ((COUNT, IS_FIVE), (COUNT.counted(["k"]), TRUE)):
        prepared = shop.prepared(request, predicate=predicate, settings=forced)
        assert prepared.plan.strategy is Strategy.INDEX_ONLY and prepared.results is not None
    unserved = shop.prepared(COUNT.counted(["s"]), settings=forced).plan
    assert (unserved.code, unserved.reason) == (Reason.NOT_TESTED, "no index of type BITMAP has the key s")


def test_a_count_that_spark_gives_sooner_is_sparks(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hive_bitmap.core.answering.count_budget.CLEARLY_CHEAPER", 0.0)
    prepared = shop.prepared(COUNT)
    assert prepared.plan.code is Reason.NOT_SELECTIVE and "Spark reads" in prepared.plan.reason
    assert prepared.snapshot is not None and prepared.results is None


def test_more_keys_than_an_answer_may_have_are_told_as_such(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hive_bitmap.core.answering.answer_size.FEW_ROWS", 0)
    settings = {"hive_bitmap.answer_bytes": "1", "hive_bitmap.strategy": "index only"}
    prepared = shop.prepared(COUNT.counted(["k"]), predicate=TRUE, settings=settings)
    assert prepared.plan.code is Reason.TOO_LARGE and prepared.snapshot is not None


def test_engine_reads_only_leaves_rows_to_sparks_reader(shop: Shop) -> None:
    plan = shop.prepared(settings={"hive_bitmap.engine_reads_only": "true"}).plan
    assert Strategy.ROWS not in plan.costs and Strategy.BLOCKS in plan.costs


def test_rows_of_a_lake_table_are_read_by_its_own_reader(shop: Shop) -> None:
    base = replace(shop.workshop.base, provider="delta", lake=Lake("delta"))
    plan = shop.prepared(base=base).plan
    assert Strategy.ROWS not in plan.costs and Strategy.BLOCKS in plan.costs


def test_a_store_that_fails_leaves_the_request_to_spark(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise StoreError("s3://bucket does not answer")

    monkeypatch.setattr(prepare_module, "look_up_snapshot", fails)
    plan = shop.prepared().plan
    assert (plan.strategy, plan.code) == (Strategy.FULL_SCAN, Reason.STORE)
    assert plan.reason == "s3://bucket does not answer"


def test_a_format_without_indexes_is_left_to_spark(shop: Shop) -> None:
    plan = shop.prepared(base=replace(shop.workshop.base, provider="csv")).plan
    assert plan.code is Reason.UNSUPPORTED and "csv" in plan.reason
