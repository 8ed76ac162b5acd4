"""One partition of an index from its plan to its manifest, with real files and without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hive_bitmap.core import stores
from hive_bitmap.core.index import checksums, generation, manifest
from hive_bitmap.core.index.shard import cardinalities_path
from hive_bitmap.core.stores import local_path
from hive_bitmap.spark.building import partition_change
from hive_bitmap.spark.building.file_groups import jobs_like
from hive_bitmap.spark.building.group_indexing import Group, index_group
from hive_bitmap.spark.building.refresh import Refresh, from_scratch, refresh
from tests.spark.building.generations import CRC, Workshop, index_rows


def entries(folder: str) -> dict[str, int]:
    """The files under a folder, with their inodes."""
    top = Path(local_path(folder))
    return {str(path.relative_to(top)): path.stat().st_ino for path in top.rglob("*") if path.is_file()}


def present(folder: str) -> dict[str, int]:
    found = [*stores.listing(folder).files, *stores.listing(f"{folder}/{checksums.FOLDER}").files]
    return {file.path: file.size for file in found}


@pytest.mark.parametrize("kind", [{}, {"encoding": "plain"}, {"type": "COMPACT"}], ids=str)
def test_a_change_from_scratch(tmp_path: Path, kind: dict[str, Any]) -> None:
    shop = Workshop.at(tmp_path, **kind)
    a, b = shop.write("a.parquet", [1, 2, 1]), shop.write("b.parquet", [None])
    change = shop.change(b, a)
    content, found = shop.carried_out(change)
    assert change.generation == change.folder == found.folder
    assert found.files["path"].to_pylist() == [a.path, b.path]
    assert content.files.sort_by("path").equals(found.files) and content.shards.equals(found.shards)
    if not kind.get("type"):
        assert index_rows(found) == {("a.parquet", 0): {1, 2}, ("a.parquet", 1): {1}, ("b.parquet", 0): {None}}
    assert checksums.read(found.folder).keys() >= {*found.sizes, "files.parquet", "shards.parquet"}


def test_a_partition_without_files_has_a_manifest_too(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    _, empty = shop.carried_out(shop.change())
    assert (empty.files.num_rows, empty.shards.num_rows) == (0, 0)


def test_what_is_up_to_date_keeps_its_generation(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    a = shop.write("a.parquet", [1])
    _, before = shop.carried_out(shop.change(a))
    plan = refresh(before, present(before.folder), [a], None, CRC, 1 << 30)
    change = shop.change(a, published=before, refresh=plan)
    [content] = partition_change.finish([change], [])
    assert plan.up_to_date and change.generation == before.folder
    assert content.files.equals(before.files) and content.shards.equals(before.shards)
    assert not stores.exists(change.folder)


@pytest.mark.parametrize("kind", [{}, {"type": "COMPACT"}], ids=str)
def test_shards_that_stay_are_linked_with_what_lies_beside_them(tmp_path: Path, kind: dict[str, Any]) -> None:
    shop = Workshop.at(tmp_path, **kind)
    a, b, c = (shop.write(f"{name}.parquet", [number]) for number, name in enumerate("abc"))
    _, first = shop.carried_out(shop.change(a))
    _, before = shop.carried_out(
        shop.change(a, b, published=first, refresh=refresh(first, present(first.folder), [a, b], None, CRC, 1 << 30))
    )
    assert len(before.sizes) == 2
    plan = refresh(before, present(before.folder), [a, c], None, CRC, 1 << 30)
    assert (len(plan.linked), plan.rewritten, [one.path for one in plan.read]) == (1, (), [c.path])
    _, after = shop.carried_out(shop.change(a, c, published=before, refresh=plan))
    [linked] = plan.linked
    assert set(after.sizes) > {linked} and len(after.sizes) == 2
    assert after.files["path"].to_pylist() == [a.path, c.path]
    old, new = entries(before.folder), entries(after.folder)
    beside = cardinalities_path(f"x/{linked}").removeprefix("x/")
    assert old[linked] == new[linked]
    assert (beside in new) is (not kind) and old.get(beside) == new.get(beside)
    sums = checksums.read(after.folder)
    of_before = checksums.read(before.folder)
    kept = [name for name in (linked, beside.rpartition("/")[2]) if name in of_before]
    assert len(kept) == (1 if kind else 2) and all(sums[name] == of_before[name] for name in kept)
    marker = generation.built(after.folder)
    assert marker is not None and marker.linked == frozenset({linked})


def test_files_that_could_not_be_indexed_stay_in_the_manifest_with_their_reason(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    a = shop.write("a.parquet", [1])
    odd = tmp_path / "base" / "odd.parquet"
    odd.write_bytes(b"PAR1 is how it begins")
    files = [a, stores.status(f"file:{odd}")]
    _, found = shop.carried_out(shop.change(*files))
    reasons = dict(zip(found.files["path"].to_pylist(), found.files["reason"].to_pylist(), strict=True))
    assert reasons.pop(a.path) == "" and list(reasons) == [f"file:{odd}"] and reasons[f"file:{odd}"]
    new = shop.write("c.parquet", [3])
    plan = refresh(found, present(found.folder), [*files, new], None, CRC, 1 << 30)
    assert plan.read == (new,)
    _, again = shop.carried_out(shop.change(*files, new, published=found, refresh=plan))
    stays = dict(zip(again.files["path"].to_pylist(), again.files["reason"].to_pylist(), strict=True))
    assert stays == {a.path: "", new.path: "", **reasons}


def test_a_new_generation_is_nobody_elses(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    change = shop.change(shop.write("a.parquet", [1]))
    stores.make_folder(change.folder)
    with pytest.raises(FileExistsError):
        partition_change.start([change])


def test_reports_find_the_change_that_they_are_of(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    files = [shop.write(f"{name}.parquet", [number]) for number, name in enumerate("abcd")]
    changes = [
        shop.change(file, index=index, partition=partition)
        for file, (index, partition) in zip(files, [(0, 0), (0, 1), (1, 0), (1, 1)], strict=True)
    ]
    partition_change.start(changes)
    reports = [
        replace(report, index=job.indexes[report.index])
        for job in jobs_like(shop.template, changes, 2)
        if isinstance(job.work, Group)
        for report in index_group(job.work)
    ]
    contents = partition_change.finish(changes, reports[::-1])
    assert [content.files["path"].to_pylist() for content in contents] == [[file.path] for file in files]
    for change, file in zip(changes, files, strict=True):
        assert manifest.read(change.folder).files["path"].to_pylist() == [file.path]


def test_a_change_without_a_published_generation_links_nothing(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    plan: Refresh = replace(from_scratch(()), linked=("shard-of-nobody",))
    _, found = shop.carried_out(shop.change(refresh=plan))
    assert found.sizes == {}
