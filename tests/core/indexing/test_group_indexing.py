"""Indexing of base files as a task does it: the keys of each block against Python's own, and files that cannot be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core import stores
from hive_bitmap.core.bitmaps import ENCODINGS, selection
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import fingerprint
from hive_bitmap.core.index.aggregate_columns import Aggregate
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.fingerprint import Fingerprint
from hive_bitmap.core.index.shard import CARDINALITY
from hive_bitmap.core.indexing import group_indexing
from hive_bitmap.core.indexing.group_indexing import Group, index_group, index_rows
from hive_bitmap.core.stores import IMMUTABLE, local_path
from tests.spark.building.generations import CRC, K, S, Workshop

TYPES = {"int": pa.int32(), "double": pa.float64(), "string": pa.string(), "boolean": pa.bool_()}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-3, 3) | st.sampled_from([-(2**31), 2**31 - 1, 1000]),
    "double": st.sampled_from([0.0, 1.5, -2.0, math.nan, math.inf]),
    "string": st.sampled_from(["", "a", "b", "é", "a" * 40]),
    "boolean": st.booleans(),
}


def rows_by_key(definition: Definition, rows: pa.Table, count: int) -> dict[tuple[Any, ...], list[int]]:
    """The row numbers of each key of one block, decoded from its index rows."""
    found = {}
    where = selection.layout([count])
    for number in range(rows.num_rows):
        bits = selection.nothing(where)
        stored = [rows[field.name].slice(number, 1).combine_chunks() for field in definition.bitmap_fields]
        ENCODINGS[definition.encoding].decode_into(bits, stored, where.starts[:1], where.rows)
        key = tuple(rows[name][number].as_py() for name in definition.column_names)
        found[hashable(key)] = selection.rows(bits, where, 0).tolist()
    assert len(found) == rows.num_rows  # no key twice
    return found


def hashable(key: Sequence[Any]) -> tuple[Any, ...]:
    return tuple("NaN" if isinstance(value, float) and math.isnan(value) else value for value in key)


@given(st.data(), st.sampled_from(sorted(ENCODINGS)))
def test_a_block_has_a_row_for_each_key(data: st.DataObject, encoding: str) -> None:
    types = data.draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=3))
    rows = data.draw(st.lists(st.tuples(*(st.none() | VALUES[type] for type in types)), min_size=1, max_size=40))
    columns = tuple(Column(f"c{number}", type) for number, type in enumerate(types))
    definition = Definition(name="i", database="db", table="t", columns=columns, encoding=encoding)
    arrays = [pa.array([row[number] for row in rows], TYPES[type]) for number, type in enumerate(types)]
    if data.draw(st.booleans()):
        arrays = [array.dictionary_encode() for array in arrays]
    cut = data.draw(st.integers(0, len(rows)))
    keys = pa.table({c.name: pa.chunked_array([a[:cut], a[cut:]]) for c, a in zip(columns, arrays, strict=True)})
    found = index_rows(definition, keys, "file:/w/a", 4)
    expected: dict[tuple[Any, ...], list[int]] = {}
    for number, row in enumerate(rows):
        expected.setdefault(hashable(row), []).append(number)
    assert rows_by_key(definition, found, len(rows)) == expected
    assert set(found["_bucketname"].to_pylist()) == {"file:/w/a"} and set(found["_offset"].to_pylist()) == {4}
    assert sorted(found[CARDINALITY.name].to_pylist()) == sorted(map(len, expected.values()))


def test_the_bounds_of_integers_that_lie_close_together() -> None:
    definition = Definition(name="i", database="db", table="t", columns=(K,))
    for low, high in [(-5, 122), (-5, 123), (2**31 - 128, 2**31 - 1), (-(2**31), -(2**31) + 127)]:
        keys = pa.table({"k": pa.array([high, low, high], pa.int32())})
        assert rows_by_key(definition, index_rows(definition, keys, "f", 0), 3) == {(low,): [1], (high,): [0, 2]}


def test_a_dictionary_may_hold_a_value_twice() -> None:
    definition = Definition(name="i", database="db", table="t", columns=(S,))
    dictionary = pa.DictionaryArray.from_arrays(pa.array([2, 0, None, 1, 0]), pa.array(["a", "a", "b"]))
    rows = index_rows(definition, pa.table({"s": dictionary}), "f", 0)
    assert rows_by_key(definition, rows, 5) == {("a",): [1, 3, 4], ("b",): [0], (None,): [2]}


def test_many_values_of_several_columns_are_numbered_through_a_sort(monkeypatch: pytest.MonkeyPatch) -> None:
    definition = Definition(name="i", database="db", table="t", columns=(K, S))
    random = np.random.default_rng(1)
    numbers, texts = random.integers(0, 5, 200) * 1000, random.integers(0, 7, 200).astype(str)
    keys = pa.table({"k": pa.array(numbers, pa.int32()), "s": pa.array(texts, pa.string())})
    usual = rows_by_key(definition, index_rows(definition, keys, "f", 0), 200)
    monkeypatch.setattr(group_indexing, "DENSE_CODES", 34)
    assert rows_by_key(definition, index_rows(definition, keys, "f", 0), 200) == usual
    assert sum(map(len, usual.values())) == 200


def group(shop: Workshop, *paths: str, **fields: Any) -> Group:
    folder = f"file:{shop.folder}/generation"
    Path(local_path(folder)).mkdir(exist_ok=True)
    size = sum(stores.status(path).size for path in paths if stores.exists(path))
    given = {"paths": paths, "bytes": size, "definitions": (shop.definition,), "folders": (folder,), **fields}
    return replace(shop.template, **given)


def told(shop: Workshop, *paths: str, **fields: Any) -> dict[str, dict[str, Any]]:
    """The manifest rows that indexing these files gives, by file name."""
    [report] = index_group(group(shop, *paths, **fields))
    return {row["path"].rpartition("/")[2]: row for row in report.files.to_pylist()}


def test_what_is_told_of_a_file(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    file = shop.write("a.parquet", [1, 2, 3])
    [report] = index_group(group(shop, file.path))
    [row] = report.files.to_pylist()
    assert (report.shard_rows, report.base_rows, row["shard"]) == (3, 3, report.shard)
    assert (row["reason"], row["schema_crc"], row["rows"], row["foreign"]) == ("", CRC, [2, 1], [])
    assert Fingerprint.of(row) == fingerprint.take(file.path)
    assert len(row["offsets"]) == len(row["lengths"]) == 2


def test_a_file_that_cannot_be_indexed_does_not_keep_the_others_from_it(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    good = shop.write("good.parquet", [1])
    (tmp_path / "base" / "bad.parquet").write_bytes(b"no such format")
    shop.write("gone.parquet", [2])
    (tmp_path / "base" / "gone.parquet").unlink()
    paths = [good.path, *(f"file:{tmp_path}/base/{name}.parquet" for name in ("bad", "gone"))]
    rows = told(shop, *paths)
    assert rows.keys() == {"good.parquet", "bad.parquet"}
    assert rows["good.parquet"]["shard"] and not rows["good.parquet"]["reason"]
    assert rows["bad.parquet"]["shard"] is None and rows["bad.parquet"]["reason"]
    assert rows["bad.parquet"]["rows"] == []


def test_columns_of_a_file_that_the_table_has_not_are_told(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    file = shop.write("a.parquet", [1])
    options = replace(shop.template.read_options, schema=(K,))
    assert told(shop, file.path, read_options=options)["a.parquet"]["foreign"] == ["s"]


def test_a_file_that_changes_while_it_is_read_is_read_again_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Workshop.at(tmp_path)
    file = shop.write("a.parquet", [1, 2])
    before = fingerprint.take(file.path)
    shop.write("a.parquet", [3, 4, 5])
    monkeypatch.setattr(fingerprint, "take", lambda path: before)
    row = told(shop, file.path)["a.parquet"]
    assert (row["reason"], row["shard"]) == ("it changed while it was read", None)
    monkeypatch.undo()
    assert Fingerprint.of(row) != fingerprint.take(file.path) and row["size"] == -1


def test_a_file_that_is_never_written_again_is_believed_its_log(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    file = replace(shop.write("a.parquet", [1]), etag=IMMUTABLE, mtime_ms=77)
    row = told(shop, file.path, immutable={file.path: file})["a.parquet"]
    assert (row["mtime_ms"], row["etag"], row["reason"]) == (77, IMMUTABLE, "")


def test_each_index_has_a_shard_of_its_own(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    file = shop.write("a.parquet", [1, 2, 3, 3, -3], row_group_size=10)
    by_text = replace(shop.definition, columns=(S,))
    odd = replace(shop.definition, columns=(Column("s", "int"),))
    folders = tuple(f"file:{tmp_path}/{name}" for name in "abc")
    for folder in folders:
        Path(local_path(folder)).mkdir()
    both = group(shop, file.path, definitions=(shop.definition, by_text, odd), folders=folders)
    reports = index_group(both)
    assert [(report.index, report.shard_rows) for report in reports] == [(0, 4), (1, 3), (2, 0)]
    for report, folder in zip(reports, folders, strict=True):
        stored = [name for name in stores.listing(folder).names if not name.startswith("_")]
        assert stored == ([report.shard] if report.shard else [])
    assert reports[2].files["reason"].to_pylist()[0]


def test_much_is_written_as_several_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Workshop.at(tmp_path)
    paths = [shop.write(f"{name}.parquet", [1]).path for name in "abcde"]
    keys = pa.table({"k": pa.array([1], pa.int32())})
    monkeypatch.setattr(group_indexing, "SHARD_BYTES", index_rows(shop.definition, keys, paths[0], 4).nbytes * 3 // 2)
    reports = index_group(group(shop, *paths))
    assert [report.files["path"].to_pylist() for report in reports] == [paths[:2], paths[2:4], paths[4:]]
    assert len({report.shard for report in reports}) == 3


@pytest.mark.parametrize("encoding", ["plain", "gap"])
def test_bitmaps_that_are_too_large_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    shop = Workshop.at(tmp_path, encoding=encoding)
    file = shop.write("a.parquet", list(range(64)), row_group_size=64)
    assert told(shop, file.path)["a.parquet"]["reason"] == ""
    monkeypatch.setattr(group_indexing, "MOST_BYTES", 100)
    assert told(shop, file.path)["a.parquet"]["reason"] == f"its {encoding} bitmaps take more than 0 MiB"


def test_aggregates_count_as_bytes_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Workshop.at(tmp_path, aggregates=(Aggregate("count"),))
    file = shop.write("a.parquet", list(range(64)), row_group_size=64)
    monkeypatch.setattr(group_indexing, "MOST_BYTES", 100)
    assert told(shop, file.path)["a.parquet"]["reason"].endswith("bitmaps and aggregates take more than 0 MiB")


@pytest.mark.parametrize(("keys", "block", "refused"), [(64, 20_000, False), (65, 20_000, True), (700, 700, False)])
def test_plain_is_for_few_keys_in_a_block(tmp_path: Path, keys: int, block: int, refused: bool) -> None:
    """A small block may have any number of keys, a large one 64; the other files are indexed."""
    shop = Workshop.at(tmp_path, encoding="plain")
    many = shop.write("a.parquet", [n % keys for n in range(20_000)], row_group_size=block)
    few = shop.write("b.parquet", [1, 2], row_group_size=2)
    rows = told(shop, many.path, few.path)
    reason = "the encoding plain takes 64 keys in a block, not 65: use gap instead" if refused else ""
    assert (rows["a.parquet"]["reason"], rows["b.parquet"]["reason"]) == (reason, "")
    assert (rows["a.parquet"]["shard"] is None) == refused
