"""What tasks do for keys that are expressions: read the columns, write the values, and index what was written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hive_bitmap.core.columns import Column, KeyExpression
from hive_bitmap.core.formats import FORMATS
from hive_bitmap.core.index import fingerprint
from hive_bitmap.core.index.aggregate_columns import FUNCTIONS, Aggregate
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.indexing.computed_keys import COMPUTED, LIST, MEASURED_LIST, KeyReader
from hive_bitmap.core.indexing.staged_values import ReadOptions
from hive_bitmap.errors import FileChanged, Undecodable
from hive_bitmap.spark.building.computing import FAILS, FILE, REASON, read, write
from hive_bitmap.spark.tasks.distribution import _tasks
from tests.spark.metastore.memory import MemorySession

N, S = Column("n", "bigint"), Column("s", "string")
REST = KeyExpression(alias="rest", type="bigint", sql="n % 7", canonical="(n % 7)", columns=(N,))
DEFINITION = Definition(
    name="i",
    database="db",
    table="t",
    columns=(S, REST.stored),
    expressions=(REST,),
)


def options(staging: str = "") -> ReadOptions:
    return ReadOptions("parquet", (N, S), "UTC", staging)


def write_file(path: Path, numbers: list[int | None]) -> str:
    table = pa.table({"n": pa.array(numbers, pa.int64()), "s": pa.array([f"s{n}" for n in numbers])})
    pq.write_table(table, path, row_group_size=3)
    return f"file:{path}"


def evaluated(batches: Iterator[pa.RecordBatch], *, cut: int) -> Iterator[pa.RecordBatch]:
    """Do what Spark does between the two tasks: compute n % 7, which fails for 99, and cut batches anywhere."""
    table = pa.Table.from_batches(list(batches))
    failing = pc.fill_null(pc.equal(table["n"], 99), False)
    rest = [None if n is None or n == 99 else n % 7 for n in table["n"].to_pylist()]
    keys = pa.table({FILE: table[FILE], REASON: table[REASON], REST.name: pa.array(rest, pa.int64())})
    yield from keys.append_column(f"{REST.name}{FAILS}", failing).combine_chunks().to_batches(cut)


@pytest.mark.parametrize("cut", [1, 4, 1000])
def test_the_keys_of_each_file_are_in_the_order_of_its_rows(tmp_path: Path, memory: MemorySession, cut: int) -> None:
    numbers = {"a": [5, None, 7, 8, 23, 4, 2], "b": [], "c": [1], "d": [3, 99, 4]}
    paths = {name: write_file(tmp_path / f"{name}.parquet", rows) for name, rows in numbers.items()}
    (tmp_path / "e.parquet").write_bytes(b"PAR1 this is no Parquet file PAR1")
    paths |= {"e": f"file:{tmp_path}/e.parquet", "gone": f"file:{tmp_path}/gone.parquet"}
    staging = f"file:{tmp_path}/staging"
    (tmp_path / "staging").mkdir()
    [sent] = _tasks(memory, list(paths.values()), 1)
    rows = evaluated(read([sent], [N], options()), cut=cut)
    reports = {row["path"]: row for batch in write(rows, [REST.name], staging) for row in batch.to_pylist()}
    assert list(reports) == list(paths.values())
    assert reports[paths["gone"]]["reason"] == "it is gone"
    assert reports[paths["e"]]["reason"] and not reports[paths["e"]]["part"]
    assert [reports[paths[name]]["failed"] for name in "abcd"] == [[], [], [], [REST.name]]
    listed = [
        {**reports[path], **{name: getattr(taken, name) for name in ("size", "mtime_ms", "etag", "tail_crc32")}}
        for name, path in paths.items()
        if name not in ("e", "gone")
        for taken in [fingerprint.take(path)]
    ]
    pq.write_table(pa.Table.from_pylist(listed, COMPUTED), tmp_path / "staging" / LIST)
    for name in "abc":
        handle = FORMATS["parquet"].open_file(paths[name])
        blocks = FORMATS["parquet"].blocks(handle)
        reader = KeyReader.of(DEFINITION, options(staging), paths[name], handle, blocks)
        keys = [reader.block(number) for number, rows in enumerate(blocks.rows) if rows]
        assert [key for block in keys for key in block["rest"].to_pylist()] == [
            None if n is None else n % 7 for n in numbers[name]
        ]
        assert all(block.column_names == ["s", "rest"] for block in keys)
    handle = FORMATS["parquet"].open_file(paths["d"])
    with pytest.raises(Undecodable, match="n % 7 fails for a row"):
        KeyReader.of(DEFINITION, options(staging), paths["d"], handle, FORMATS["parquet"].blocks(handle))
    write_file(tmp_path / "a.parquet", [1, 2])
    handle = FORMATS["parquet"].open_file(paths["a"])
    with pytest.raises(FileChanged, match="changed while Spark computed its keys"):
        KeyReader.of(DEFINITION, options(staging), paths["a"], handle, FORMATS["parquet"].blocks(handle))


def test_values_of_another_column_of_the_name_are_not_aggregated(tmp_path: Path) -> None:
    """Expressions over former columns, or of another Spark, have the same name."""
    former, current = (
        KeyExpression(
            alias="twice",
            type="bigint",
            sql="n * 2",
            canonical="(n * 2)",
            columns=(Column("n", "bigint", field_id=id),),
        )
        for id in (1, 2)
    )
    assert former.name == current.name
    path, staging = write_file(tmp_path / "a.parquet", [1, None]), tmp_path / "staging"
    staging.mkdir()
    pq.write_table(pa.table({current.values_name: pa.array([2, None], pa.int64())}), staging / "part.parquet")
    taken = fingerprint.take(path)
    row = {"path": path, "part": "part.parquet", "reason": "", "failed": [], "seconds": 0.1}
    row |= {name: getattr(taken, name) for name in ("size", "mtime_ms", "etag", "tail_crc32")}
    pq.write_table(pa.Table.from_pylist([row], COMPUTED), staging / MEASURED_LIST)
    read_options = ReadOptions("parquet", (*current.columns, S), "UTC", f"file:{staging}")
    handle = FORMATS["parquet"].open_file(path)
    for expression, measured in ((former, ()), (replace(current, spark="3.5"), ()), (current, (current,))):
        aggregates = tuple(Aggregate(function, expression.stored, expression) for function in FUNCTIONS)
        definition = Definition(name="i", database="db", table="t", columns=(S,), aggregates=aggregates)
        reader = KeyReader.of(definition, read_options, path, handle, FORMATS["parquet"].blocks(handle))
        assert reader.measured == measured
