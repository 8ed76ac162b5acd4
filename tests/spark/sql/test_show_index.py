"""What SHOW INDEX says of an index in openLooKeng's columns, given its state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.spark.maintaining.show import IndexStatus, PartitionStatus
from hive_bitmap.spark.sql.show_index import partitions, properties, state

DEFINITION = Definition(name="i", database="db", table="t", columns=(Column("k", "int"),))
WIDTH = 70


def status(*counts: dict[str, int], problem: str = "", where: str = "", names: tuple[str, ...] = ()) -> IndexStatus:
    none: dict[str, Any] = dict.fromkeys(("fresh", "stale", "unindexed", "gone", "stale_bytes", "unindexed_bytes"), 0)
    none |= dict.fromkeys(("base_rows", "index_rows", "index_bytes"), 0)
    found = [
        PartitionStatus(**{**none, "name": name, "values": (name,), "built": None, **of})
        for name, of in zip(names or ("",) * len(counts), counts, strict=True)
    ]
    return IndexStatus(replace(DEFINITION, where=where), tuple(found), problem)


@pytest.mark.parametrize(
    ("shown", "word"),
    [
        (status(), "OK"),  # no partition, and so nothing that it lacks
        (status({"fresh": 3}), "OK"),
        (status({"fresh": 3}, {"stale": 1}), "Out-of-sync"),
        (status({"unindexed": 1}, {"fresh": 3}), "Out-of-sync"),
        (status({"gone": 1}), "Out-of-sync"),
        (status({"fresh": 3}, problem="it is damaged"), "Out-of-sync"),
    ],
)
def test_an_index_that_queries_do_not_have_whole_is_out_of_sync(shown: IndexStatus, word: str) -> None:
    assert state(shown) == word


def test_an_index_without_a_where_is_of_all_partitions() -> None:
    assert partitions(status({}, {}, names=("p=1", "p=2"))) == "all"
    assert partitions(status({}, {}, names=("p=1", "p=2"), where="p < 3")) == "p=1,p=2"
    assert partitions(status(where="p < 3")) == ""


@given(st.lists(st.text("abc=1", min_size=1, max_size=40), max_size=20))
def test_partitions_are_told_in_lines(names: list[str]) -> None:
    lines = partitions(status(*({} for _ in names), names=tuple(names), where="p < 3")).split("\n")
    assert "".join(lines) == ",".join(names)
    assert [len(line) for line in lines[:-1]] == [WIDTH] * (len(lines) - 1)
    assert len(lines[-1]) <= WIDTH and (lines[-1] or not names)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "encoding=gap,compression=zstd,enabled=true"),
        ({"type": "COMPACT"}, "compression=zstd,enabled=true"),
        ({"enabled": False, "encoding": "ewah"}, "encoding=ewah,compression=zstd,enabled=false"),
        ({"refresh_interval": "5 minutes"}, "encoding=gap,compression=zstd,enabled=true"),
        (
            {"auto_refresh": True, "refresh_interval": "5 minutes", "compression": "gzip"},
            "encoding=gap,compression=gzip,enabled=true,auto_refresh=true,refresh_interval=5 minutes",
        ),
        (
            {"properties": (("level", "stripe"), ("a", ""))},
            "encoding=gap,compression=zstd,enabled=true,level=stripe,a=",
        ),
    ],
)
def test_properties_that_have_a_meaning_here_come_first(fields: dict[str, Any], told: str) -> None:
    assert properties(replace(DEFINITION, **fields)) == told
