"""Which files of a plan are listed whole in a result file, and where their blocks are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from hive_bitmap.core.index.fingerprint import Fingerprint
from hive_bitmap.core.planning.planner import make_plan
from hive_bitmap.core.selecting.candidates import LookupResults
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.querying.offsets_file import all_offsets, block_offsets, whole_files
from tests.core.planning.test_planner import INPUTS, looked_up, with_new_file
from tests.core.selecting.lookups import lookup_of
from tests.spark.building.generations import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def whole(work: LookupResults | None, *listed: FileStatus, nothing: bool = False) -> list[str]:
    plan = make_plan(INPUTS, (), work or looked_up())
    plan = replace(plan, candidates=work, blocks_total=0 if nothing else None if work is None else plan.blocks_total)
    return whole_files(plan, {file.path: file for file in listed})


def as_indexed(work: LookupResults) -> list[FileStatus]:
    return [one.status for lookup in work.lookups for one in lookup.fingerprints]


NEW = FileStatus("file:/w/new", 5, 1, "")


def test_files_that_are_as_they_were_indexed_are_listed_by_their_blocks() -> None:
    work = looked_up([5, 0], [0, 0])
    assert whole(work, *as_indexed(work)) == []
    assert whole(work) == []  # files that are gone have no block


def test_files_that_changed_and_new_ones_are_listed_whole() -> None:
    work = with_new_file(looked_up([5, 0], [0, 0]))
    first, second = as_indexed(work)
    assert whole(work, first, replace(second, mtime_ms=9)) == [second.path, "file:/w/new"]
    assert whole(work, replace(first, size=1), second) == [first.path, "file:/w/new"]


def test_a_tag_that_only_the_listing_of_the_store_tells_counts() -> None:
    work = looked_up([5])
    [lookup] = work.lookups
    tagged = tuple(replace(one, etag="1", path="s3a://b/0") for one in lookup.fingerprints)
    unit = replace(lookup.unit, paths=("s3a://b/0",))
    work = replace(work, lookups=(lookup_of(unit, lookup.predicate, fingerprints=tagged),))
    [status] = as_indexed(work)
    assert isinstance(tagged[0], Fingerprint)
    assert whole(work, status) == []
    assert whole(work, replace(status, etag="2")) == ["s3a://b/0"]


def test_where_no_index_was_asked_all_files_are_listed_unless_no_row_matches() -> None:
    assert whole(None, NEW) == [NEW.path]
    assert whole(None, NEW, nothing=True) == []


def test_all_blocks_with_rows(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    full, empty = shop.write("a.parquet", [1, 2, 3]), shop.write("b.parquet", [])
    with pq.ParquetFile(tmp_path / "base" / "a.parquet") as file:
        expected = [file.metadata.row_group(group).column(0).data_page_offset for group in range(2)]
        dictionary = [file.metadata.row_group(group).column(0).dictionary_page_offset for group in range(2)]
    assert block_offsets("parquet", empty.path) == []
    found = block_offsets("parquet", full.path)
    assert len(found) == 2
    for offset, first, page in zip(found, dictionary, expected, strict=True):
        assert offset in (first, page)


def test_a_file_whose_blocks_are_unknown(tmp_path: Path) -> None:
    path = tmp_path / "odd.parquet"
    assert block_offsets("parquet", f"file:{path}") == "the file no longer exists"
    path.write_bytes(b"no such format")
    assert block_offsets("parquet", f"file:{path}") == "it does not end as a Parquet file does"


def test_tasks_open_the_files(spark: SparkSession, tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    paths = [shop.write(f"{number}.parquet", [1, 2, 3]).path for number in range(3)]
    assert all_offsets(spark, "parquet", paths) == {path: block_offsets("parquet", path) for path in paths}
    (tmp_path / "odd.parquet").write_bytes(b"no such format")
    with pytest.raises(Unsupported) as raised:
        all_offsets(spark, "parquet", [*paths, f"file:{tmp_path}/odd.parquet"])
    why = "it does not end as a Parquet file does"
    assert str(raised.value) == f"the blocks of file:{tmp_path}/odd.parquet are unknown: {why}"
