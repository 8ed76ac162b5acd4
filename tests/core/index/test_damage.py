"""Tests that a damaged index (flipped bits, truncated or swapped files) never loses a row. Python is the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import checksums, lookup, manifest, shard
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.manifest import SHARDS
from hive_bitmap.core.index.shard import key_fields
from hive_bitmap.core.indexing.group_indexing import Group, index_group
from hive_bitmap.core.indexing.staged_values import ReadOptions
from hive_bitmap.core.selecting.lookup_units import IndexPart, LookupUnit
from hive_bitmap.core.selecting.select import select
from hive_bitmap.errors import CorruptIndex
from hive_bitmap.hive.hiveserver.parser import parse

COLUMNS = (Column("k", "int"), Column("s", "string"))
PREDICATES = {"k": ["k = 3", "k > 4", "k IS NULL"], "s": ["s = 'a'", "s IS NULL", "s LIKE 'c%'"]}
FLIPS = 60


@pytest.fixture(params=["gap", "plain", "ewah", "roaring", "compact"])
def encoding(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def generation(tmp_path: Path, encoding: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[LookupUnit]]:
    """A generation of two indexes on two files, whose shards have many row groups; one lookup unit for each index."""
    monkeypatch.setattr(shard, "ROW_GROUP_ROWS", 7)
    rng = np.random.default_rng(1)
    keys = pa.array(rng.integers(0, 7, 300), pa.int32(), mask=rng.random(300) < 0.1)
    texts = pa.array([["a", "b", None, "cc"][n] for n in rng.integers(0, 4, 300)])
    table = pa.table({"k": keys, "s": texts})
    for name, rows in (("a", table), ("b", table.slice(100, 150))):
        pq.write_table(rows, tmp_path / f"{name}.parquet", row_group_size=60)
    kind = {"type": "COMPACT"} if encoding == "compact" else {"encoding": encoding}
    definitions = tuple(Definition(name=c.name, database="db", table="t", columns=(c,), **kind) for c in COLUMNS)
    folder = f"file:{tmp_path}"
    paths = (f"{folder}/a.parquet", f"{folder}/b.parquet")
    group = Group(
        paths=paths,
        bytes=1,
        read_options=ReadOptions("parquet", COLUMNS, "UTC"),
        schema_crc=1,
        definitions=definitions,
        folders=(folder, folder),
    )
    reports = index_group(group)
    rows = [(r.shard, r.written.size, r.shard_rows, r.written.cardinality_size) for r in reports]
    shards = pa.Table.from_pylist([dict(zip(SHARDS.names, row, strict=True)) for row in rows], SHARDS)
    (tmp_path / checksums.FOLDER).mkdir(exist_ok=True)
    manifest.write(folder, [reports[0].files], shards, {**reports[0].written.sums, **reports[1].written.sums})
    units = []
    for definition, report in zip(definitions, reports, strict=True):
        counts = [len(offsets) for offsets in report.files["offsets"]]
        of_blocks = {"offset": "offsets", "length": "lengths", "rows": "rows"}
        flat = {to: report.files[name].combine_chunks().flatten().to_numpy() for to, name in of_blocks.items()}
        part = IndexPart(
            index=definition.name,
            key=key_fields(definition)[0],
            encoding="" if encoding == "compact" else encoding,
            shards=((f"{folder}/{report.shard}", report.written.size),),
            files=np.arange(2),
        )
        flat["file"] = np.repeat(np.arange(2), counts)
        units.append(LookupUnit(paths=paths, **flat, parts={definition.column_names[0]: part}))
    yield units
    forget()


def forget() -> None:
    """Empty the caches of files that normally never change."""
    lookup.clear_caches()
    for kept in (checksums.of_generation, manifest.read):
        kept.cache_clear()


def selected(unit: LookupUnit) -> list[list[set[int] | None]]:
    """Return for each predicate the selected rows of each block; None means all rows."""
    (column,) = unit.parts
    found = [select(unit, parse(text, COLUMNS, "t"), {}) for text in PREDICATES[column]]
    return [
        [None if (rows := one.block_rows(block)) is None else set(rows.tolist()) for block in range(len(unit.rows))]
        for one in found
    ]


def matching(unit: LookupUnit) -> list[list[set[int]]]:
    """Return what `selected` must return for an undamaged index, computed from the base files."""
    tests = {
        "k = 3": lambda k: k == 3,
        "k > 4": lambda k: k is not None and k > 4,
        "k IS NULL": lambda k: k is None,
        "s = 'a'": lambda s: s == "a",
        "s IS NULL": lambda s: s is None,
        "s LIKE 'c%'": lambda s: s is not None and s.startswith("c"),
    }
    (column,) = unit.parts
    blocks = []
    for path in unit.paths:
        file = pq.ParquetFile(path.removeprefix("file:"))
        blocks += [file.read_row_group(n)[column].to_pylist() for n in range(file.num_row_groups)]
    return [[{n for n, key in enumerate(keys) if tests[text](key)} for keys in blocks] for text in PREDICATES[column]]


def holds(more: list[list[set[int] | None]], least: list[list[set[int] | None]]) -> bool:
    pairs = [pair for a, b in zip(more, least, strict=True) for pair in zip(a, b, strict=True)]
    return all(a is None or (b is not None and a >= b) for a, b in pairs)


def test_a_flipped_bit_of_a_shard_loses_no_row(generation: list[LookupUnit], encoding: str) -> None:
    for unit in generation:
        (part,) = unit.parts.values()
        truth = selected(unit)
        assert encoding == "compact" or truth == matching(unit)
        name = part.shards[0][0]
        for path in [name] if encoding == "compact" else [name, shard.cardinalities_path(name)]:
            flip(Path(path.removeprefix("file:")), lambda unit=unit, truth=truth: holds(selected(unit), truth))
            assert selected(unit) == truth


def flip(path: Path, right: Callable[[], bool]) -> None:
    """Flip random bits of a file, one at a time; `right` must stay true."""
    whole = path.read_bytes()
    rng = np.random.default_rng(2)
    for at in [*rng.integers(0, len(whole), FLIPS).tolist(), *range(len(whole) - 40, len(whole))]:
        damaged = bytearray(whole)
        damaged[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        forget()
        assert right(), f"byte {at} of {len(whole)} of {path.name}"
    path.write_bytes(whole)
    forget()


@pytest.mark.parametrize("encoding", ["gap"], indirect=True)
@pytest.mark.parametrize("name", ["files.parquet", "shards.parquet", checksums.NAME])
def test_a_damaged_manifest_is_not_believed(generation: list[LookupUnit], tmp_path: Path, name: str) -> None:
    folder, path = f"file:{tmp_path}", tmp_path / checksums.FOLDER / name
    whole = path.read_bytes()
    right = manifest.read(folder)
    rng = np.random.default_rng(3)
    flips = [(at, 1 << int(rng.integers(8))) for at in rng.integers(0, len(whole), FLIPS).tolist()]
    damages = [bytes(b ^ bit * (n == at) for n, b in enumerate(whole)) for at, bit in flips]
    damages += [b"", whole[:-1], whole[: len(whole) // 2]]
    damages += [b"[]", b"1", b"null", b'{"files.parquet": 1}', b'{"files.parquet": []}', b"[" * 100_000]
    for damage in damages:
        path.write_bytes(damage)
        forget()
        try:
            found = manifest.read(folder)
        except CorruptIndex:
            continue
        assert name == checksums.NAME  # the checksum of a shard may be damaged, which is noticed when the shard is read
        assert found.files == right.files and found.shards == right.shards


@pytest.mark.parametrize("encoding", ["gap"], indirect=True)
def test_a_shard_in_the_place_of_another_is_not_believed(generation: list[LookupUnit]) -> None:
    first, second = (next(iter(unit.parts.values())).shards[0][0].removeprefix("file:") for unit in generation)
    truth = selected(generation[0])
    Path(first).write_bytes(Path(second).read_bytes())
    forget()
    found = selected(generation[0])
    assert truth == matching(generation[0])
    assert all(rows is None or len(rows) for rows in found[0]) and holds(found, truth)
