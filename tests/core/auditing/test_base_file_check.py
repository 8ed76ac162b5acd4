"""One base file as `verify` looks at it: whether it is what was indexed, and what the manifest says of its blocks."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hive_bitmap.core.auditing.base_file_check import (
    COMPARED,
    DAMAGED,
    STALE,
    RecordedFile,
    open_base,
    recorded_blocks,
    recorded_bounds,
)
from hive_bitmap.core.columns import Column
from hive_bitmap.core.formats.blocks import Blocks
from hive_bitmap.core.index import fingerprint
from hive_bitmap.core.index.fingerprint import Fingerprint
from hive_bitmap.core.indexing.staged_values import ReadOptions
from tests.spark.building.generations import K, S, Workshop

OPTIONS = ReadOptions("parquet", (K, S), "UTC")


@pytest.fixture
def row(tmp_path: Path) -> dict[str, Any]:
    """The row of the manifest of a file in three blocks, the last of one row."""
    shop = Workshop.at(tmp_path)
    _, published = shop.carried_out(shop.change(shop.write("a.parquet", [1, 2, 3, 4, 5])))
    return dict(published.files.to_pylist()[0])


def known(row: dict[str, Any], **fields: Any) -> RecordedFile:
    found = RecordedFile(Fingerprint.of(row), recorded_blocks(row), frozenset(row["indirect"]), fresh=True)
    return replace(found, **fields)


def path_of(row: dict[str, Any]) -> Path:
    return Path(row["path"].removeprefix("file:"))


def test_a_file_that_is_as_it_was_indexed(row: dict[str, Any]) -> None:
    found = open_base(known(row), OPTIONS)
    assert (found.state, found.problems.count, found.path) == (COMPARED, 0, row["path"])
    assert found.blocks.rows.tolist() == [2, 2, 1] and found.filled.tolist() == [0, 1, 2]


def test_blocks_without_rows_are_not_filled(row: dict[str, Any]) -> None:
    found = open_base(known(row, fresh=False), OPTIONS)
    found.blocks = Blocks(*(np.array(column, np.int64) for column in ([4, 9, 20], [5, 11, 1], [0, 3, 0], [4, 9, 20])))
    assert found.filled.tolist() == [1]


@pytest.mark.parametrize("change", ["listed otherwise", "time", "content", "gone"])
def test_a_file_that_is_another_one_is_not_compared(row: dict[str, Any], change: str) -> None:
    path, one = path_of(row), known(row, fresh=change != "listed otherwise")
    match change:
        case "time":
            os.utime(path, (1, 1))
        case "content":
            path.write_bytes(path.read_bytes()[:-1] + b"x")
        case "gone":
            path.unlink()
    found = open_base(one, OPTIONS)
    assert (found.state, found.problems.count, found.blocks) == (STALE, 0, one.blocks)


def test_a_file_that_is_indexed_and_cannot_be_read(row: dict[str, Any]) -> None:
    """The fingerprint is right, so it was such a file from the start."""
    path = path_of(row)
    path.write_bytes(b"no such format")
    one = known(row, fingerprint=fingerprint.take(row["path"]))
    found = open_base(one, OPTIONS)
    assert (found.state, found.problems.count, found.blocks) == (DAMAGED, 1, one.blocks)
    assert found.problems.messages[0].startswith("it is indexed, but cannot be read as Spark reads it: ")


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("offsets", [4, 5, 6], "the manifest says of its blocks: offset [4, 5, 6] (3), but they have ["),
        ("rows", [2, 2, 2], "the manifest says of its blocks: rows [2, 2, 2] (3), but they have [2, 2, 1] (3)"),
        ("rows", [2] * 5, "the manifest says of its blocks: rows [2, 2, 2, 2] .. (5), but they have [2, 2, 1] (3)"),
        ("lengths", [], "the manifest says of its blocks: length [] (0), but they have ["),
    ],
)
def test_a_manifest_that_is_wrong_about_blocks(row: dict[str, Any], column: str, values: list[int], said: str) -> None:
    found = open_base(known({**row, column: values}), OPTIONS)
    assert (found.state, found.problems.count) == (COMPARED, 1)
    assert found.problems.messages[0].startswith(said)
    assert found.blocks.rows.tolist() == [2, 2, 1]  # those of the file


@pytest.mark.parametrize(
    ("recorded", "said"),
    [
        (frozenset({"s"}), []),
        (frozenset({"s", "k"}), []),  # the build found more, in the pages of the column
        (None, []),  # the columns of the table have changed
        (frozenset(), ["only Spark can read ['s'], but the manifest says []"]),
    ],
)
def test_columns_that_only_spark_reads(row: dict[str, Any], recorded: frozenset[str] | None, said: list[str]) -> None:
    stored_otherwise = replace(OPTIONS, schema=(K, Column("s", "date")))
    found = open_base(known(row, spark_only=recorded), stored_otherwise)
    assert (found.state, found.problems.messages) == (COMPARED, said)


@pytest.mark.parametrize(
    ("recorded", "said"),
    [
        (frozenset({"n", "n?"}), []),
        (None, []),  # an older build recorded none
        (frozenset({"n"}), ["its nested columns are ['n', 'n?'], but the manifest says ['n']"]),
    ],
)
def test_nested_columns(row: dict[str, Any], recorded: frozenset[str] | None, said: list[str]) -> None:
    with_nested = replace(OPTIONS, schema=(K, S, Column("n", "array<int>")))
    found = open_base(known(row, spark_only=None, nested=recorded), with_nested)
    assert (found.state, found.problems.messages) == (COMPARED, said)


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ({}, []),  # an older build recorded none
        ({"k int": [0, 0, 0, 1, 3, 5, 2, 4, 5]}, []),
        ({"k int": [0, 0, 0, 1, 4, 5, 2, 4, 5]}, ["k int: bounds [0, 0, 0, 1] .. (9), but it has [0, 0, 0, 1] .. (9)"]),
        ({"k bigint": [0] * 9}, ["k bigint: bounds [0, 0, 0, 0] .. (9), but it has none"]),
    ],
)
def test_bounds_of_columns(row: dict[str, Any], bounds: dict[str, list[int]], said: list[str]) -> None:
    assert recorded_bounds(row) == {"k int": [0, 0, 0, 1, 3, 5, 2, 4, 5]}
    found = open_base(known(row, bounds=bounds), OPTIONS)
    assert found.problems.messages == [f"the manifest says of column {words}" for words in said]


def test_manifests_of_older_builds_have_no_first_bytes(row: dict[str, Any]) -> None:
    assert recorded_blocks({**row, "starts": None}).start.tolist() == row["offsets"]
    assert recorded_blocks(row).start.tolist() == row["starts"]
