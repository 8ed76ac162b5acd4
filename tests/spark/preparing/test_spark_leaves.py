"""Leaves that only Spark evaluates: which keys of an index it is given, and where none is asked about."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hive_bitmap.core import stores
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import lookup
from hive_bitmap.core.index.manifest import Manifest
from hive_bitmap.core.predicates.nodes import And, Compare, Or, Predicate, SparkLeaf
from hive_bitmap.core.segments.covered import Covered
from hive_bitmap.core.selecting.table_files import FileRecords, PartitionState, TableFiles, listing_of
from hive_bitmap.core.stores import local_path
from hive_bitmap.spark.preparing import index_lookup
from hive_bitmap.spark.preparing.index_lookup import evaluate_leaves
from hive_bitmap.spark.preparing.request import NoEngine
from tests.spark.building.generations import Workshop

EVEN, SMALL, OTHER = SparkLeaf("k % 2 = 0", "K"), SparkLeaf("abs(k) < 3", "k"), SparkLeaf("length(s) > 1", "s")


def state(*manifests: Manifest) -> TableFiles:
    """The files of a table, which its index knows by these manifests."""
    files = [stores.status(path) for one in manifests for path in one.files["path"].to_pylist()]
    partitions = (PartitionState(name="", values=(), files=tuple(files)),)
    known = FileRecords.of(Covered.by(manifests), listing_of(partitions), np.zeros(1, np.int64))
    return TableFiles(partitions=partitions, records={"i": known} if manifests else {})


class Asked(NoEngine):
    """Spark, which keeps even keys, and what it was asked."""

    def __init__(self, answers: bool = True) -> None:
        self.answers = answers
        self.keys: dict[SparkLeaf, list[int | None]] = {}

    def satisfying(self, leaf: SparkLeaf, column: Column, keys: pa.Array) -> pa.Array | None:
        assert (column.name, keys.type) == ("k", pa.int32()) and leaf not in self.keys
        self.keys[leaf] = sorted(keys.to_pylist(), key=str)
        even = [key for key in keys.to_pylist() if key is not None and key % 2 == 0]
        return pa.array(even, pa.int32()) if self.answers else None


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return Workshop.at(tmp_path)


def built(shop: Workshop, name: str, keys: list[int | None]) -> Manifest:
    return shop.carried_out(shop.change(shop.write(name, keys)))[1]


def found(shop: Workshop, asked: Asked, predicate: Predicate, table: TableFiles) -> dict[SparkLeaf, list[int]]:
    leaves = evaluate_leaves(asked, predicate, {"k": shop.definition}, table)
    return {leaf: sorted(keys.to_pylist()) for leaf, keys in leaves.items()}


def test_spark_is_given_each_key_of_all_partitions_once(shop: Workshop) -> None:
    table = state(built(shop, "a", [1, 2, 2, None]), built(shop, "b", [2, 4, None]))
    asked = Asked()
    assert found(shop, asked, And((EVEN, Compare("k", ">", 0))), table) == {EVEN: [2, 4]}
    assert asked.keys == {EVEN: [1, 2, 4, None]}


def test_each_leaf_is_asked_once_and_others_are_not(shop: Workshop) -> None:
    asked = Asked()
    predicate = Or((EVEN, And((SMALL, EVEN)), OTHER, Compare("k", "=", 1)))
    assert found(shop, asked, predicate, state(built(shop, "a", [2]))).keys() == {EVEN, SMALL}
    assert asked.keys.keys() == {EVEN, SMALL}  # no index serves the column of the other


def test_what_spark_cannot_tell_has_no_answer(shop: Workshop) -> None:
    assert found(shop, Asked(answers=False), EVEN, state(built(shop, "a", [2]))) == {}


def test_an_index_that_holds_nothing_has_no_keys(shop: Workshop) -> None:
    asked = Asked()
    assert found(shop, asked, EVEN, state()) == {EVEN: []}
    assert asked.keys == {EVEN: []}


def test_a_damaged_shard_leaves_all_rows(shop: Workshop) -> None:
    manifest = built(shop, "a", [2])
    [shard] = manifest.sizes
    Path(local_path(manifest.shard_path(shard))).write_bytes(b"PAR1")
    lookup.clear_caches()
    asked = Asked()
    assert found(shop, asked, EVEN, state(manifest)) == {} == asked.keys


@pytest.mark.parametrize(("limit", "told"), [("MAX_KEYS", 3), ("MAX_KEY_BYTES", 12)])
def test_too_many_keys_are_not_sent(shop: Workshop, monkeypatch: pytest.MonkeyPatch, limit: str, told: int) -> None:
    monkeypatch.setattr(index_lookup, limit, told)
    few = [built(shop, f"{number}", [1, 2, 3]) for number in range(3)]  # nine, of which three are distinct
    asked = Asked()
    assert found(shop, asked, EVEN, state(*few)) == {EVEN: [2]}
    assert found(shop, Asked(), EVEN, state(*few, built(shop, "more", [4]))) == {}
    some = [built(shop, f"other{number}", keys) for number, keys in enumerate([[1, 2], [2, 3], [4]])]
    assert found(shop, Asked(), EVEN, state(*some[:2])) == {EVEN: [2]}
    assert found(shop, Asked(), EVEN, state(*some)) == {}
