"""The sample of a snapshot that is looked up first: pure arithmetic, no Spark, no file."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from hive_bitmap.core.predicates.nodes import Compare
from hive_bitmap.core.selecting.table_files import PartitionState, TableFiles
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.stores.speed import LOCAL
from hive_bitmap.spark.preparing.snapshot import SAMPLED, Snapshot

RESOLVED: Any = None  # a sample keeps it, and looks at nothing in it


def snapshot(partitions: int) -> Snapshot:
    return Snapshot(
        resolved=RESOLVED,
        indexes=frozenset({"k"}),
        files=TableFiles(
            partitions=tuple(
                PartitionState(
                    name=f"p={number}",
                    values=(str(number),),
                    files=(FileStatus(f"file:/w/p={number}/f", 100 + number, 0, ""),),
                    number=number,
                )
                for number in range(partitions)
            )
        ),
        predicates=[Compare("k", "=", number) for number in range(partitions)],
        values=pa.table({"": list(range(partitions)), "p": list(range(partitions))}),
        zone="UTC",
        schemas={},
        store=LOCAL,
    )


def test_bytes_and_files_are_those_of_all_partitions() -> None:
    assert (snapshot(3).files.bytes, len(snapshot(3).files.files)) == (100 + 101 + 102, 3)
    assert (snapshot(0).files.bytes, snapshot(0).files.files) == (0, ())


@pytest.mark.parametrize("partitions", [0, 1, SAMPLED, 2 * SAMPLED - 1])
def test_few_partitions_have_no_sample(partitions: int) -> None:
    assert snapshot(partitions).sample() is None


@pytest.mark.parametrize("partitions", [2 * SAMPLED, 100, 1001, 100_000])
def test_a_sample_is_spread_over_the_partitions_and_keeps_what_belongs_together(partitions: int) -> None:
    sample = snapshot(partitions).sample()
    assert sample is not None
    numbers = [state.number for state in sample.files.partitions]
    assert len(numbers) == SAMPLED and numbers == sorted(set(numbers))
    gaps = [later - earlier for earlier, later in pairwise(numbers)]
    assert max(gaps) - min(gaps) == 0 and numbers[0] < gaps[0] and partitions - numbers[-1] < 2 * gaps[0] + SAMPLED
    assert list(sample.predicates) == [Compare("k", "=", number) for number in numbers]
    assert sample.values["p"].to_pylist() == numbers
