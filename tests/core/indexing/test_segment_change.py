"""One segment of an index from its plan to its manifest, with real files and without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from hive_bitmap.core import stores
from hive_bitmap.core.index import checksums, generation, manifest
from hive_bitmap.core.index.shard import cardinalities_path
from hive_bitmap.core.indexing import segment_change
from hive_bitmap.core.indexing.group_indexing import Group, index_group
from hive_bitmap.core.indexing.segment_change import BaseFile
from hive_bitmap.core.segments.covered import Covered
from hive_bitmap.core.stores import local_path
from hive_bitmap.spark.building.file_groups import jobs_like
from tests.spark.building.generations import P, Workshop, index_rows, new_segment, texts


def entries(folder: str) -> dict[str, int]:
    """The files under a folder, with their inodes."""
    top = Path(local_path(folder))
    return {str(path.relative_to(top)): path.stat().st_ino for path in top.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", [{}, {"encoding": "plain"}, {"type": "COMPACT"}], ids=str)
def test_a_segment_of_new_files(tmp_path: Path, kind: dict[str, Any]) -> None:
    shop = Workshop.at(tmp_path, **kind)
    a, b = shop.write("a.parquet", [1, 2, 1]), shop.write("b.parquet", [None])
    change = shop.change(b, a)
    content, found = shop.carried_out(change)
    assert change.folder == found.folder
    assert found.files["path"].to_pylist() == [a.path, b.path]
    assert content.files.sort_by("path").equals(found.files) and content.shards.equals(found.shards)
    if not kind.get("type"):
        assert index_rows(found) == {("a.parquet", 0): {1, 2}, ("a.parquet", 1): {1}, ("b.parquet", 0): {None}}
    assert checksums.read(found.folder).keys() >= {*found.sizes, "files.parquet", "shards.parquet"}


@pytest.mark.parametrize("kind", [{}, {"encoding": "plain"}, {"type": "COMPACT"}], ids=str)
def test_a_shard_has_the_partitions_of_its_files_and_a_path_once(tmp_path: Path, kind: dict[str, Any]) -> None:
    shop = Workshop.at(tmp_path, **kind, partitioned_by=(P,))
    a, b = shop.write("a.parquet", [1, 2, 1]), shop.write("b.parquet", [1])
    _, found = shop.carried_out(shop.change(BaseFile(("x",), a), BaseFile((None,), a), BaseFile((None,), b)))
    assert found.files["values"].to_pylist() == [["x"], [None], [None]]
    of_file = {"a.parquet": {"x", None}, "b.parquet": {None}}
    shards = [pq.read_table(local_path(found.shard_path(name))).to_pylist() for name in found.sizes]
    assert len(shards) == 2
    for rows in shards:
        places = {(row["_bucketname"].rpartition("/")[2], row["p"]) for row in rows}
        assert len({name for name, _ in places}) == len(places) and all(p in of_file[name] for name, p in places)
    merged = Covered.by([found])
    plan = new_segment(
        [found.folder], merged.files, rewritten=tuple((name,) for name in merged.shards["shard"].to_pylist())
    )
    _, again = shop.carried_out(shop.change(segment=plan, published=merged))
    key = ("path", "values", "offsets", "rows")
    rows_of = [sorted(map(repr, one.files.select(key).to_pylist())) for one in (found, again)]
    assert rows_of[0] == rows_of[1]
    stored = [
        sorted(repr(row) for name in one.sizes for row in pq.read_table(local_path(one.shard_path(name))).to_pylist())
        for one in (found, again)
    ]
    assert stored[0] == stored[1]


def test_a_segment_without_files_has_a_manifest_too(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    _, empty = shop.carried_out(shop.change())
    assert (empty.files.num_rows, empty.shards.num_rows) == (0, 0)


@pytest.mark.parametrize("kind", [{}, {"type": "COMPACT"}], ids=str)
def test_shards_that_stay_are_linked_with_what_lies_beside_them(tmp_path: Path, kind: dict[str, Any]) -> None:
    shop = Workshop.at(tmp_path, **kind)
    a, b, c = (shop.write(f"{name}.parquet", [number]) for number, name in enumerate("abc"))
    before = [shop.carried_out(shop.change(file))[1] for file in (a, b)]
    covered = Covered.by(before)
    [linked, rewritten] = covered.shards["shard"].to_pylist()
    plan = new_segment(
        [one.folder for one in before], covered.files, linked=(linked,), rewritten=((rewritten,),), read=(0,)
    )
    _, after = shop.carried_out(shop.change(c, segment=plan, published=covered))
    name = linked.rpartition("/")[2]
    assert set(after.sizes) > {name} and len(after.sizes) == 3
    assert after.files["path"].to_pylist() == [a.path, b.path, c.path]
    old, new = entries(before[0].folder), entries(after.folder)
    beside = cardinalities_path(f"x/{name}").removeprefix("x/")
    assert old[name] == new[name]
    assert (beside in new) is (not kind) and old.get(beside) == new.get(beside)
    sums, of_before = checksums.read(after.folder), checksums.read(before[0].folder)
    kept = [one for one in (name, beside.rpartition("/")[2]) if one in of_before]
    assert len(kept) == (1 if kind else 2) and all(sums[one] == of_before[one] for one in kept)
    marker = generation.built(after.folder)
    assert marker is not None and marker.linked == frozenset({name})


def test_files_that_could_not_be_indexed_stay_in_the_manifest_with_their_reason(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    a = shop.write("a.parquet", [1])
    odd = tmp_path / "base" / "odd.parquet"
    odd.write_bytes(b"PAR1 is how it begins")
    _, found = shop.carried_out(shop.change(a, stores.status(f"file:{odd}")))
    reasons = dict(zip(found.files["path"].to_pylist(), found.files["reason"].to_pylist(), strict=True))
    assert reasons[a.path] == "" and reasons[f"file:{odd}"]
    covered = Covered.by([found])
    plan = new_segment([found.folder], covered.files, linked=tuple(covered.shards["shard"].to_pylist()))
    _, again = shop.carried_out(shop.change(segment=plan, published=covered))
    assert dict(zip(again.files["path"].to_pylist(), again.files["reason"].to_pylist(), strict=True)) == reasons


def test_a_new_segment_is_nobody_elses(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    change = shop.change(shop.write("a.parquet", [1]))
    stores.make_folder(change.folder)
    with pytest.raises(FileExistsError):
        segment_change.start([change])


def test_reports_find_the_change_that_they_are_of(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    files = [shop.write(f"{name}.parquet", [number]) for number, name in enumerate("abcd")]
    changes = [shop.change(file, index=index) for file, index in zip(files, (0, 0, 1, 1), strict=True)]
    segment_change.start(changes)
    reports = [
        replace(report, index=job.segments[report.index])
        for job in jobs_like(shop.template, changes, 2, texts)
        if isinstance(job.work, Group)
        for report in index_group(job.work)
    ]
    contents = segment_change.finish(changes, reports[::-1])
    assert [content.files["path"].to_pylist() for content in contents] == [[file.path] for file in files]
    for change, file in zip(changes, files, strict=True):
        assert manifest.read(change.folder).files["path"].to_pylist() == [file.path]


@pytest.mark.parametrize("kind", [{}, {"type": "COMPACT"}], ids=str)
def test_what_a_first_attempt_of_a_task_wrote_is_no_part_of_the_segment(tmp_path: Path, kind: dict[str, Any]) -> None:
    """Spark runs a task again if its executor is lost; readers by SQL would see the rows of both attempts."""
    shop = Workshop.at(tmp_path, **kind)
    change = shop.change(shop.write("a.parquet", [1, 2, 1]))
    segment_change.start([change])
    [job] = jobs_like(shop.template, [change], 1, texts)
    assert isinstance(job.work, Group)
    [lost] = index_group(job.work)
    reports = [replace(report, index=0) for report in index_group(job.work)]
    (Path(local_path(change.folder)) / "part-of-others.parquet").touch()
    [written] = segment_change.finish([change], reports)
    assert lost.shard not in (None, reports[0].shard) and lost.shard is not None
    names = entries(change.folder)
    assert lost.shard not in names and reports[0].shard in names and "part-of-others.parquet" in names
    assert cardinalities_path(lost.shard) not in names
    assert written.shards["shard"].to_pylist() == [reports[0].shard]
