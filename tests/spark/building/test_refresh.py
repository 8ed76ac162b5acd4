"""Tests of the plan of a rebuild: what it keeps, reads and rewrites, given made-up manifests and listings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.index.manifest import FILES, SHARDS, Manifest
from hive_bitmap.core.index.shard import cardinalities_path
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.spark.building.group_indexing import SHARD_BYTES
from hive_bitmap.spark.building.refresh import COMPRESSION, MANY_SHARDS, Refresh, refresh

FOLDER = "file:/i/generation"
CRC = 7
SIZE = 100  # bytes of a base file
SHARD_SIZE, BESIDE = 50, 5


@dataclass(frozen=True)
class Known:
    """A file as a manifest lists it; without a shard it has a reason."""

    path: str
    shard: str | None = "a"
    mtime_ms: int = 1
    schema_crc: int = CRC
    size: int = SIZE


def manifest(files: Iterable[Known], sizes: Mapping[str, int] | None = None) -> Manifest:
    known = list(files)
    rows = [
        {
            "path": file.path,
            "size": file.size,
            "mtime_ms": file.mtime_ms,
            "etag": "inode",
            "tail_crc32": 0,
            "shard": file.shard,
            "reason": "" if file.shard else "encrypted",
            "schema_crc": file.schema_crc,
            "indirect": [],
            "offsets": [4],
            "lengths": [SIZE],
            "rows": [10],
        }
        for file in known
    ]
    shards = [
        {"shard": name, "size": (sizes or {}).get(name, SHARD_SIZE), "rows": 3, "cardinality_size": BESIDE}
        for name in dict.fromkeys(file.shard for file in known if file.shard)
    ]
    return Manifest(FOLDER, pa.Table.from_pylist(rows, FILES), pa.Table.from_pylist(shards, SHARDS))


def present(published: Manifest) -> dict[str, int]:
    found = {}
    for name, size in published.sizes.items():
        found[published.shard_path(name)] = size
        found[cardinalities_path(published.shard_path(name))] = BESIDE
    return {**found, f"{FOLDER}/_built_by": 9, f"{FOLDER}/_manifest/files.parquet": 9}


def listed(*files: Known) -> list[FileStatus]:
    return [FileStatus(file.path, file.size, file.mtime_ms, "inode") for file in files]


def planned(published: Manifest, now: Iterable[Known], target: int = SIZE, compact: bool = False) -> Refresh:
    return refresh(published, present(published), listed(*now), [CRC], CRC, target, compact)


def read(plan: Refresh) -> list[str]:
    return [file.path for file in plan.read]


A, B, C = Known("/1"), Known("/2"), Known("/3", "b")
LEFT_OUT = Known("/4", None)


def test_what_is_up_to_date_is_left_alone() -> None:
    published = manifest([A, B, C, LEFT_OUT])
    plan = planned(published, [A, B, C, LEFT_OUT])
    assert plan.up_to_date and not plan.read and not plan.rewritten
    assert plan.linked == ("a", "b") and plan.files.equals(published.files)


def test_new_files_are_read_and_all_shards_kept() -> None:
    plan = planned(manifest([A, B, C]), [A, B, C, Known("/9")])
    assert (read(plan), plan.linked, plan.rewritten, plan.up_to_date) == (["/9"], ("a", "b"), (), False)


@pytest.mark.parametrize("change", [{"mtime_ms": 2}, {"size": SIZE + 1}])
def test_a_changed_file_is_read_and_leaves_its_shard(change: dict[str, int]) -> None:
    plan = planned(manifest([A, B, C]), [replace(A, **change), B, C])
    assert (read(plan), plan.linked, plan.rewritten) == (["/1"], ("b",), (("a",),))
    assert plan.rows_of(["a"])["path"].to_pylist() == ["/2"] and plan.untouched["path"].to_pylist() == ["/3"]


def test_a_vanished_file_leaves_its_shard_without_any_reading() -> None:
    plan = planned(manifest([A, B, C]), [A, C])
    assert (read(plan), plan.linked, plan.rewritten, plan.up_to_date) == ([], ("b",), (("a",),), False)


def test_a_shard_of_which_nothing_stays_goes() -> None:
    plan = planned(manifest([A, B, C]), [A, B])
    assert (read(plan), plan.linked, plan.rewritten, plan.up_to_date) == ([], ("a",), (), False)


def test_a_file_with_a_reason_is_tried_again_only_when_it_changed() -> None:
    published = manifest([A, LEFT_OUT])
    assert read(planned(published, [A, LEFT_OUT])) == []
    assert read(planned(published, [A, replace(LEFT_OUT, mtime_ms=2)])) == ["/4"]
    never_seen = manifest([A, replace(LEFT_OUT, size=-1, mtime_ms=-1)])  # it changed while it was read
    assert read(planned(never_seen, [A, LEFT_OUT])) == ["/4"]


def test_columns_that_leave_files_indexed_leave_them_unread() -> None:
    """All but those that could not be indexed: with other columns, they perhaps can."""
    published = manifest([A, replace(B, schema_crc=CRC + 1), replace(LEFT_OUT, schema_crc=CRC + 1)])
    for schemas in (None, [CRC, CRC + 1]):
        plan = refresh(published, present(published), listed(A, B, LEFT_OUT), schemas, CRC, SIZE)
        assert (read(plan), plan.rewritten) == (["/4"], ())


def test_other_columns_of_the_table_make_every_file_another() -> None:
    published = manifest([A, replace(B, schema_crc=CRC + 1), replace(LEFT_OUT, schema_crc=CRC + 1)])
    plan = planned(published, [A, B, LEFT_OUT])
    assert (read(plan), plan.rewritten) == (["/2", "/4"], (("a",),))


@pytest.mark.parametrize("harm", ["missing", "short", "no cardinalities"])
def test_files_of_a_damaged_shard_are_read_again(harm: str) -> None:
    published = manifest([A, B, C])
    found = present(published)
    path = published.shard_path("a")
    found.pop(cardinalities_path(path) if harm == "no cardinalities" else path)
    if harm == "short":
        found[path] = SHARD_SIZE - 1
    plan = refresh(published, found, listed(A, B, C), [CRC], CRC, SIZE)
    assert (read(plan), plan.linked, plan.rewritten, plan.up_to_date) == (["/1", "/2"], ("b",), (), False)


@pytest.mark.parametrize(("name", "up_to_date"), [("000000_0", False), ("part-x.parquet", False), ("_SUCCESS", True)])
def test_files_of_strangers_make_a_new_generation(name: str, up_to_date: bool) -> None:
    published = manifest([A, B, C])
    plan = refresh(published, {**present(published), f"{FOLDER}/{name}": 1}, listed(A, B, C), [CRC], CRC, SIZE)
    assert (plan.up_to_date, plan.linked, read(plan)) == (up_to_date, ("a", "b"), [])


def many(count: int, size: int = SIZE) -> list[Known]:
    return [Known(f"/{number:03}", f"s{number:03}", size=size) for number in range(count)]


def test_small_shards_are_merged_where_that_is_asked_for_or_there_are_many() -> None:
    few = many(MANY_SHARDS)
    assert planned(manifest(few), few, 100 * SIZE).up_to_date
    assert planned(manifest(few), few, 100 * SIZE, compact=True).rewritten == (tuple(f.shard for f in few if f.shard),)
    more = many(MANY_SHARDS + 1)
    assert planned(manifest(more), more, 100 * SIZE).rewritten == (tuple(f.shard for f in more if f.shard),)
    assert not planned(manifest(more), more, 100 * SIZE).read


def test_large_shards_are_not_merged() -> None:
    files = many(40)
    assert planned(manifest(files), files, 2 * SIZE, compact=True).up_to_date
    stored = manifest(files, dict.fromkeys((f.shard for f in files if f.shard), SHARD_BYTES // COMPRESSION // 2))
    assert planned(stored, files, 100 * SIZE, compact=True).up_to_date


def test_shards_that_take_much_memory_are_not_merged_however_small_they_are_on_disk() -> None:
    files = many(40)
    for rows, block_rows, plain, up_to_date in (
        (SHARD_BYTES // 50, 10, False, True),  # of each row the path alone
        (SHARD_BYTES // 5000, 10, False, False),
        (SHARD_BYTES // 5000, 1 << 20, True, True),
        (SHARD_BYTES // 5000, 1 << 20, False, False),
    ):
        published = manifest(files)
        shards = published.shards.set_column(2, "rows", pa.array([rows] * len(files)))
        blocks = pa.array([[block_rows]] * len(files), FILES.field("rows").type)
        published = Manifest(
            FOLDER, published.files.set_column(FILES.get_field_index("rows"), FILES.field("rows"), blocks), shards
        )
        plan = refresh(published, present(published), listed(*files), [CRC], CRC, 100 * SIZE, True, plain)
        assert plan.up_to_date == up_to_date


def test_one_small_shard_has_nothing_to_be_merged_with() -> None:
    assert planned(manifest([A]), [A], 100 * SIZE, compact=True).up_to_date


FILE = st.builds(
    Known,
    st.sampled_from([f"/{number}" for number in range(12)]),
    st.sampled_from(["a", "b", "c", "d", None]),
    st.integers(1, 2),
    st.sampled_from([CRC, CRC, CRC, CRC + 1]),
    st.sampled_from([SIZE, 3 * SIZE]),
)
SOME = st.lists(FILE, max_size=12, unique_by=lambda file: file.path)


@settings(max_examples=300)
@given(SOME, SOME, st.sampled_from([SIZE, 4 * SIZE, 100 * SIZE]), st.booleans(), st.sets(st.sampled_from("abcd")))
def test_every_file_is_kept_or_read_and_its_rows_are_where_the_plan_says(
    known: list[Known], now: list[Known], target: int, compact: bool, damaged: set[str]
) -> None:
    published = manifest(sorted(known, key=lambda file: file.path))
    found = {path: size for path, size in present(published).items() if path.rpartition("/")[2] not in damaged}
    plan = refresh(published, found, listed(*now), [CRC], CRC, target, compact)
    before = {file.path: file for file in known}
    right = {
        file.path
        for file in now
        if (old := before.get(file.path)) is not None
        and (old.size, old.mtime_ms, old.schema_crc) == (file.size, file.mtime_ms, CRC)
        and old.shard not in damaged
    }
    assert set(plan.files["path"].to_pylist()) == right
    assert sorted([*read(plan), *right]) == sorted(file.path for file in now)
    rewritten = [shard for shards in plan.rewritten for shard in shards]
    assert len({*plan.linked, *rewritten}) == len(plan.linked) + len(rewritten)
    assert {*plan.linked, *rewritten} == {before[path].shard for path in right} - {None}
    of = {shard: {path for path, file in before.items() if file.shard == shard} for shard in plan.linked}
    assert all(paths <= right for paths in of.values())
    parts = [plan.untouched, *(plan.rows_of(shards) for shards in plan.rewritten)]
    assert sorted(path for part in parts for path in part["path"].to_pylist()) == sorted(right)
