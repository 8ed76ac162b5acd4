"""Offsets of lines that may match, as a task finds them: real text files, and Python's own count of bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hive_bitmap.core.formats import LAYOUTS, blocks
from hive_bitmap.core.index import fingerprint
from hive_bitmap.core.predicates.nodes import TRUE, Constant, Predicate, Unknown
from hive_bitmap.core.selecting.candidates import Lookup
from hive_bitmap.core.selecting.lookup_units import LookupUnit
from hive_bitmap.spark.querying.offsets_file import UnitTask, located
from tests.core.selecting.lookups import lookup_of

LINES = ["one", "", "three", "four", "5"]
STARTS = np.cumsum([0, *(len(line) + 1 for line in LINES)])[:-1].tolist()


def text(folder: Path, name: str, lines: list[str] = LINES) -> str:
    (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return f"file:{folder}/{name}"


def lookup(*paths: str, predicate: Predicate = TRUE) -> Lookup:
    """A lookup of the blocks of files for which no index is needed."""
    found = [blocks.blocks(LAYOUTS["text"], path) for path in paths]
    unit = LookupUnit(
        paths=paths,
        file=np.repeat(np.arange(len(paths)), [len(one.rows) for one in found]),
        offset=np.concatenate([one.offset for one in found]),
        length=np.concatenate([one.length for one in found]),
        rows=np.concatenate([one.rows for one in found]),
        parts={},
    )
    return lookup_of(unit, predicate, fingerprints=tuple(map(fingerprint.take, paths)))


def told(task: UnitTask) -> tuple[dict[str, list[int]], str]:
    found, problem = located(task)
    return {path: offsets.tolist() for path, offsets in found.items()}, problem


def test_all_lines_of_a_file_that_no_index_knows(tmp_path: Path) -> None:
    path = text(tmp_path, "a")
    assert told(UnitTask("text", None, {}, path)) == ({path: STARTS}, "")
    empty = text(tmp_path, "b", [])
    assert told(UnitTask("text", None, {}, empty)) == ({empty: []}, "")


@pytest.mark.parametrize(
    ("predicate", "offsets"),
    [(TRUE, STARTS), (Unknown("?", "?"), STARTS), (Constant(False), []), (Constant(None), [])],
)
def test_the_lines_of_selected_rows(tmp_path: Path, predicate: Predicate, offsets: list[int]) -> None:
    a, b = text(tmp_path, "a"), text(tmp_path, "b", ["x"])
    found = told(UnitTask("text", lookup(a, b, predicate=predicate), {}))
    assert found == ({a: offsets, b: offsets and [0]}, "")


def test_lines_of_several_blocks_are_told_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 4)
    path = text(tmp_path, "a")
    one = lookup(path)
    assert len(one.unit.rows) > 2
    assert told(UnitTask("text", one, {})) == ({path: STARTS}, "")


@pytest.mark.parametrize("change", ["written", "gone"])
def test_a_file_that_changed_since_it_was_planned(tmp_path: Path, change: str) -> None:
    path = text(tmp_path, "a")
    one = lookup(path)
    if change == "gone":
        (tmp_path / "a").unlink()
    else:
        text(tmp_path, "a", [*LINES, "more"])
    found, problem = told(UnitTask("text", one, {}))
    assert found == {} and problem.startswith("a file changed after the query was planned, run it again: ")


def test_a_file_of_another_form_is_not_told(tmp_path: Path) -> None:
    path = text(tmp_path, "a.bz2")
    found, problem = told(UnitTask("text", None, {}, path))
    assert (found, problem) == (
        {},
        "the offsets of a file cannot be determined: text compressed as bz2 is not supported: use gzip or deflate",
    )
    missing: dict[str, Any] = {"whole_file": f"file:{tmp_path}/nowhere"}
    assert told(replace(UnitTask("text", None, {}), **missing))[1].startswith("a file changed after the query")
