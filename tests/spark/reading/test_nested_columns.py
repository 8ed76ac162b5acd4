"""Nested columns by rows: what plain Spark reads, of files of Spark and of others, also where their schemas differ."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hive_bitmap
from hive_bitmap.core.formats.key_values import arrow_of
from hive_bitmap.core.nested_types import ArrayOf, MapOf, NestedType, StructOf, text
from tests.asking import BY_TASKS, Answer, answer, by_spark, difference, frame, indexed, require_alike
from tests.core.formats.nested_data import evolved, random_type, random_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAYS = ("rows", BY_TASKS)
ROWS = 40


@pytest.fixture
def seeds(request: pytest.FixtureRequest) -> list[int]:
    first, more = request.config.getoption("--seed"), request.config.getoption("--long")
    return list(range(first, first + 1 + 20 * more))


def paths(name: str, type: NestedType) -> Iterator[str]:
    """Expressions of parts of a column, as Spark prunes them."""
    yield name
    match type:
        case StructOf(fields):
            for field, inner in fields:
                yield from paths(f"{name}.{field}", inner)
        case ArrayOf(StructOf(fields)):
            yield from (f"{name}.{field}" for field, _ in fields)
            yield f"size({name})"
        case ArrayOf(_):
            yield f"get({name}, 0)"
        case MapOf(_, value):
            yield f"map_values({name})"
            yield f"map_entries({name})"
            if isinstance(value, StructOf):
                yield from (f"map_values({name}).{field}" for field, _ in value.fields)


def write(path: Path, types: dict[str, NestedType], rng: random.Random, first: int) -> None:
    ids = range(first, first + ROWS)
    columns = {name: pa.array([random_value(rng, type) for _ in ids], arrow_of(type)) for name, type in types.items()}
    table = pa.table({"id": ids, "k": pa.array([id % 5 for id in ids], pa.int32()), **columns})
    pq.write_table(table, path, row_group_size=16, store_schema=rng.random() < 0.5)


def by_way(spark: SparkSession, query: str, way: str) -> tuple[Answer, bool]:
    """The answer of a query, and whether it was by rows."""
    with indexed(spark, way):
        found = frame(spark, query)
        plan = str(found._jdf.queryExecution().executedPlan())
        return answer(found), ("DriverScan" if way == "rows" else "MapInArrow") in plan


def reads_rows(spark: SparkSession, query: str, way: str) -> bool:
    return by_way(spark, query, way)[1]


def queries(types: dict[str, NestedType], rng: random.Random) -> Sequence[str]:
    parts = [part for name, type in types.items() for part in paths(name, type)]
    some = [rng.sample(parts, min(len(parts), count)) for count in (1, 1, 3)]
    tested = rng.choice(parts)
    return [
        "SELECT * FROM t WHERE k = 3",
        *(
            f"SELECT id, {', '.join(f'{part} AS c{n}' for n, part in enumerate(chosen))} FROM t WHERE k = 2"
            for chosen in some
        ),
        f"SELECT id, {some[2][0]} AS c FROM t WHERE k IN (1, 4) AND {tested} IS NOT NULL",
    ]


@pytest.mark.random
def test_random_columns(spark: SparkSession, database: str, tmp_path: Path, seeds: list[int]) -> None:
    """Files of pyarrow, of several schemas, and then the same rows in files of Spark."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    by_rows = 0
    for seed in seeds:
        rng = random.Random(seed)
        types = {f"v{number}": random_type(rng) for number in range(4)}
        folder = tmp_path / str(seed)
        folder.mkdir()
        write(folder / "a.parquet", types, rng, 0)
        others = {name: evolved(rng, type) if rng.random() < 0.6 else type for name, type in types.items()}
        write(folder / "b.parquet", others, rng, ROWS)
        columns = ", ".join(f"{name} {text(type)}" for name, type in types.items())
        spark.sql(f"CREATE TABLE t (id bigint, k int, {columns}) USING parquet LOCATION '{folder}'")
        for copied in (False, True):
            if copied:
                spark.sql("CREATE TABLE s USING parquet AS SELECT * FROM t")
                hive_bitmap.drop_table(spark, "t")
                spark.sql("ALTER TABLE s RENAME TO t")
            hive_bitmap.build(spark, "t", ["k"])
            for query in queries(types, rng):
                try:
                    wanted = by_spark(spark, query)
                except (PySparkException, Py4JJavaError):  # Spark itself cannot read it
                    continue
                for way in WAYS:
                    found, is_by_rows = by_way(spark, query, way)
                    assert not difference(found, wanted), f"{way}, seed {seed}: {query}"
                    by_rows += is_by_rows
        hive_bitmap.drop_table(spark, "t")
    assert by_rows >= 5 * len(seeds)


def test_the_layouts_of_old_writers(spark: SparkSession, database: str) -> None:
    """Of Spark's legacy mode: other names inside arrays, and maps by other types of decimals."""
    spark.conf.set("spark.sql.parquet.writeLegacyFormat", "true")
    try:
        values = "array(id, NULL) AS a, map('x', id) AS m, named_struct('a', array(id)) AS s"
        spark.sql(f"CREATE TABLE t USING parquet AS SELECT CAST(id % 5 AS int) AS k, {values} FROM range(0, 50, 1, 1)")
    finally:
        spark.conf.unset("spark.sql.parquet.writeLegacyFormat")
    hive_bitmap.build(spark, "t", ["k"])
    require_alike(spark, "SELECT * FROM t WHERE k = 3", *WAYS)
    assert not reads_rows(spark, "SELECT a FROM t WHERE k = 3", "rows")


def test_what_is_left_to_spark(spark: SparkSession, database: str) -> None:
    """CHAR and collations, ORC, and columns whose type has changed since the build."""
    spark.sql(
        "CREATE TABLE t (k int, a array<char(3)>, c array<string collate UTF8_LCASE>, s struct<a: int>) USING parquet"
    )
    spark.sql("INSERT INTO t SELECT CAST(id % 5 AS int), array('x'), array('X'), struct(1) FROM range(0, 50, 1, 1)")
    spark.sql("CREATE TABLE o USING orc AS SELECT k, s FROM t")
    for table in ("t", "o"):
        hive_bitmap.build(spark, table, ["k"])
    assert reads_rows(spark, "SELECT s FROM t WHERE k = 3", "rows")
    for query in ("SELECT a FROM t WHERE k = 3", "SELECT c FROM t WHERE k = 3", "SELECT s FROM o WHERE k = 3"):
        assert not reads_rows(spark, query, "rows")
        require_alike(spark, query, *WAYS)


def test_maps_with_duplicate_keys_and_evolved_structs(spark: SparkSession, database: str, tmp_path: Path) -> None:
    maps = pa.array([[("x", 1), ("x", 2)], None, [], [("y", None)]] * 5, pa.map_(pa.string(), pa.int64()))
    structs = pa.array([{"b": 1, "a": "x"}, None, {"b": None, "a": None}, {"b": 2, "a": "y"}] * 5)
    bytes = pa.array([[(b"x", 1), (b"x", None)], None] * 10, pa.map_(pa.binary(), pa.int32()))
    columns = {"k": pa.array([1, 2] * 10, pa.int32()), "M": maps, "s": structs, "bytes": bytes}
    pq.write_table(pa.table(columns), tmp_path / "f.parquet")
    types = "m map<string, bigint>, bytes map<binary, int>, s struct<A: string, b: bigint, c: array<struct<d: date>>>"
    spark.sql(f"CREATE TABLE t (k int, {types}) USING parquet LOCATION '{tmp_path}'")
    hive_bitmap.build(spark, "t", ["k"])
    for query in (
        "SELECT k, m, s, map_entries(bytes) FROM t WHERE k = 1",
        "SELECT m['x'], map_entries(m), s.a FROM t WHERE k = 1",
        "SELECT s.b, s.c FROM t WHERE k = 2 AND s.b IS NOT NULL",
        "SELECT k, explode(map_keys(m)) FROM t WHERE k = 1",
        "SELECT s.a, count(*), sum(s.b) FROM t WHERE k = 1 GROUP BY s.a",
    ):
        wanted = by_spark(spark, query)
        for way in WAYS:
            found, is_by_rows = by_way(spark, query, way)
            assert is_by_rows and not difference(found, wanted), f"{way}: {query}"
    missing = "SELECT s.c FROM t WHERE k = 1 AND s IS NOT NULL"
    require_alike(spark, missing, *WAYS)
