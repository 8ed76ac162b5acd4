"""Tests that compacted shards hold the same as if the same base files had been indexed."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hive_bitmap.core import stores
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import checksums, manifest
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.lookup import cardinalities
from hive_bitmap.core.index.manifest import SHARDS, Manifest
from hive_bitmap.core.index.shard import cardinalities_path
from hive_bitmap.core.indexing import shard_compaction
from hive_bitmap.core.indexing.group_indexing import Group, ShardReport, index_group
from hive_bitmap.core.indexing.shard_compaction import Compaction, compact_shards
from hive_bitmap.core.indexing.staged_values import ReadOptions
from hive_bitmap.core.stores import local_path

COLUMNS = (
    Column("k", "int"),
    Column("s", "string"),
    Column("f", "double"),
    Column("n", "decimal(7,2)"),
    Column("at", "timestamp"),
)
KINDS: list[dict[str, Any]] = [{"encoding": name} for name in ("gap", "plain", "ewah", "roaring")] + [
    {"type": "COMPACT"}
]


def group_of(tmp_path: Path, names: list[str], folder: str, definition: Definition) -> Group:
    paths = tuple(f"file:{tmp_path}/{name}" for name in names)
    (tmp_path / folder).mkdir(exist_ok=True)
    return Group(
        paths=paths,
        bytes=1,
        read_options=ReadOptions("parquet", COLUMNS, "UTC"),
        schema_crc=1,
        definitions=(definition,),
        folders=(f"file:{tmp_path}/{folder}",),
    )


@pytest.fixture
def base(tmp_path: Path) -> list[str]:
    """Four files in blocks of 40 rows, with NULL, NaN, and keys that some of the files lack."""
    rng = np.random.default_rng(3)
    names = []
    for number in range(4):
        some = rng.integers(number, number + 6, 100)
        columns = {
            "k": pa.array(some, pa.int32(), mask=some == 4),
            "s": pa.array(["abcdéfghij"[n] * int(n) for n in some]),
            "f": pa.array(np.where(some == 3, np.nan, some / 4)),
            "n": pa.array([Decimal(int(n)) for n in some], pa.decimal128(7, 2)),
            "at": pa.array(some.astype("datetime64[s]").astype("datetime64[us]"), pa.timestamp("us", tz="UTC")),
        }
        names.append(f"{number}.parquet")
        pq.write_table(pa.table(columns), tmp_path / names[-1], row_group_size=40)
    return names


def shards_of(folder: Path, reports: list[ShardReport]) -> tuple[tuple[str, int], ...]:
    """Write the manifest of a generation; return the paths and sizes of its shards."""
    made = [r for r in reports if r.shard]
    columns = zip(*((r.shard, r.written.size, r.shard_rows, r.written.cardinality_size) for r in made), strict=True)
    sums = {name: found for report in made for name, found in report.written.sums.items()}
    (folder / checksums.FOLDER).mkdir(parents=True, exist_ok=True)
    manifest.write(f"file:{folder}", [r.files for r in reports], pa.table(list(columns), SHARDS), sums)
    checksums.of_generation.cache_clear()
    return tuple((f"file:{folder}/{report.shard}", report.written.size) for report in made)


def located(folder: Path, reports: list[ShardReport]) -> pa.Table:
    """The rows of a manifest, with the paths of shards."""
    files = pa.concat_tables([report.files for report in reports])
    return Manifest(f"file:{folder}", files, SHARDS.empty_table()).located().files


def rows_of(folder: str, reports: list[ShardReport]) -> list[dict[str, Any]]:
    """Return the stored rows with their cardinalities, in the order of the shards."""
    rows = []
    for report in reports:
        path = f"{folder}/{report.shard}"
        stored = pq.read_table(local_path(path), coerce_int96_timestamp_unit="us")
        if report.written.cardinality_size:
            stored = stored.append_column("cardinality", pa.array(cardinalities(path)))
        rows += stored.to_pylist()
    return rows


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("columns", [("k",), ("s", "f"), ("n", "at")], ids="-".join)
@pytest.mark.parametrize("kept", [[0, 1, 2, 3], [0, 2], [3]], ids=str)
def test_a_compacted_shard_holds_what_indexing_would_give(
    tmp_path: Path, base: list[str], kind: dict[str, Any], columns: tuple[str, ...], kept: list[int]
) -> None:
    definition = Definition(
        name="i", database="db", table="t", columns=tuple(c for c in COLUMNS if c.name in columns), **kind
    )
    before = [
        report for some in (base[2:], base[:2]) for report in index_group(group_of(tmp_path, some, "a", definition))
    ]
    shards = shards_of(tmp_path / "a", before)
    staying = [base[number] for number in kept]
    wanted = group_of(tmp_path, staying, "b", definition)
    files = located(tmp_path / "a", before)
    files = files.filter(pa.compute.is_in(files["path"], value_set=pa.array(wanted.paths)))
    used = tuple((path, size) for path, size in shards if path in files["shard"].to_pylist())
    [found] = compact_shards(Compaction(used, files, wanted))
    [expected] = index_group(group_of(tmp_path, staying, "c", definition))
    assert repr(rows_of(wanted.folders[0], [found])) == repr(rows_of(f"file:{tmp_path}/c", [expected]))
    assert (found.shard_rows, found.base_rows) == (expected.shard_rows, expected.base_rows)
    order = [("path", "ascending")]
    assert found.files.drop_columns("shard").sort_by(order) == expected.files.drop_columns("shard").sort_by(order)
    assert set(found.files["shard"].to_pylist()) == {found.shard}
    with stores.open_input(f"{wanted.folders[0]}/{found.shard}") as source:
        assert found.written.sums[str(found.shard)] == checksums.of_shard(source)


def test_much_is_written_as_several_shards(tmp_path: Path, base: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    definition = Definition(name="i", database="db", table="t", columns=COLUMNS[:1])
    before = [report for name in base for report in index_group(group_of(tmp_path, [name], "a", definition))]
    monkeypatch.setattr(shard_compaction, "SHARD_BYTES", 1000)
    files = located(tmp_path / "a", before)
    found = compact_shards(
        Compaction(shards_of(tmp_path / "a", before), files, group_of(tmp_path, base, "b", definition))
    )
    assert 1 < len(found) <= 4
    assert sorted(path for report in found for path in report.files["path"].to_pylist()) == sorted(
        files["path"].to_pylist()
    )
    for report in found:
        stored = rows_of(f"file:{tmp_path}/b", [report])
        assert {row["_bucketname"] for row in stored} == set(report.files["path"].to_pylist())


@pytest.mark.parametrize("harm", ["missing", "short", "flipped", "without cardinalities"])
def test_a_damaged_shard_is_indexed_again(tmp_path: Path, base: list[str], harm: str) -> None:
    definition = Definition(name="i", database="db", table="t", columns=COLUMNS[:1])
    before = [report for name in base[:2] for report in index_group(group_of(tmp_path, [name], "a", definition))]
    shards = shards_of(tmp_path / "a", before)
    path = Path(local_path(shards[0][0]))
    content = path.read_bytes()
    match harm:
        case "missing":
            path.unlink()
        case "short":
            path.write_bytes(content[:-9])
        case "flipped":
            path.write_bytes(content[:50] + bytes([content[50] ^ 1]) + content[51:])
        case _:
            Path(local_path(cardinalities_path(shards[0][0]))).unlink()
    files = located(tmp_path / "a", before)
    wanted = group_of(tmp_path, base[:2], "b", definition)
    found = compact_shards(Compaction(shards, files, wanted))
    expected = index_group(replace(wanted, folders=(f"file:{tmp_path}/a",)))
    stored = sorted(map(repr, rows_of(f"file:{tmp_path}/b", found)))
    assert stored == sorted(map(repr, rows_of(f"file:{tmp_path}/a", expected)))
