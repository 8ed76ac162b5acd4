"""Indexes of ours as Hive 2.3.10's own: used by itself, and right where what Hive builds is not.

The oracle is Hive's full scan of the same table. That Hive used an index, EXPLAIN tells.
"""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.cli import main
from hive_bitmap.errors import AlreadyExists, NotFound, Unsupported
from hive_bitmap.hive.hive2.export import export
from hive_bitmap.hive.hiveserver.connection import Server
from hive_bitmap.hive.hiveserver.register import register_index
from tests.hive.hive2.hive2_tables import Base, make_table, shared_database
from tests.servers.hiveserver import HiveServer, Refused, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.hive, pytest.mark.xdist_group("hive2")]
BY_ITSELF = {
    "hive.optimize.index.filter": "true",
    "hive.optimize.index.filter.compact.minsize": "0",
    "hive.auto.convert.join": "false",  # else Hive joins two BITMAP indexes by a map join, and never loads its side
    "hive.fetch.task.conversion": "none",
    "hive.input.format": "org.apache.hadoop.hive.ql.io.HiveInputFormat",
    "hive.exec.orc.split.strategy": "ETL",
    "fs.file.impl.disable.cache": "true",
}
PREDICATES = ["k = 3", "k > 46 AND s = 's1'", "k <= 2 AND p = 'a b'", "s = 'rare'", "k = 999"]


@pytest.fixture(scope="module")
def database_of_both(
    spark: SparkSession, hive2: HiveServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Base]:
    with shared_database(spark, hive2, tmp_path_factory.mktemp("base")) as made:
        yield made


@contextlib.contextmanager
def by_itself(server: HiveServer, base: Base, split: int) -> Iterator[Any]:
    """A session that uses indexes by itself, in the table's database, and reads in splits of that size."""
    sizes = dict.fromkeys(["fs.local.block.size", "mapreduce.input.fileinputformat.split.maxsize"], str(split))
    with contextlib.closing(server.connect(base.name.partition(".")[0], **BY_ITSELF, **sizes)) as connection:
        yield connection


def full_scan(server: HiveServer, query: str) -> Counter[tuple[Any, ...]]:
    with contextlib.closing(server.connect()) as connection:
        return Counter(run(connection, query))


def uses_index(connection: Any, query: str) -> bool:
    return any("_bucketname" in line for (line,) in run(connection, f"EXPLAIN {query}"))


@pytest.mark.parametrize("kind", ["Parquet by Hive", "ORC by Spark"])
def test_hive_uses_exported_indexes_by_itself(
    hive2: HiveServer, spark: SparkSession, database_of_both: Base, tmp_path: Path, kind: str
) -> None:
    """Partitions, two indexes joined by AND, small splits; and an index that is stale for Hive is left alone."""
    base = make_table(spark, hive2, database_of_both, kind)
    hive_bitmap.build(spark, base.name, ["k", "s"], encoding="ewah")
    exported = [export(spark, base.name, index, str(tmp_path / "exported")) for index in ("k", "s")]
    with contextlib.closing(hive2.connect()) as connection:
        for index in exported:
            register_index(Server(connection), index)
    with by_itself(hive2, base, 6_000) as connection:
        for predicate in PREDICATES:
            query = f"SELECT id, k, s, p FROM {base.name} WHERE {predicate}"
            assert uses_index(connection, query), predicate
            assert Counter(run(connection, query)) == full_scan(hive2, query), predicate

        query = f"SELECT id FROM {base.name} WHERE k = 3"
        before = full_scan(hive2, query)
        for path in list(base.folder.glob("p=a b/[!_.]*")):
            shutil.copy(path, path.with_name(f"later {path.name}"))
        assert not uses_index(connection, query)
        assert Counter(run(connection, query)) == full_scan(hive2, query) != before
    with pytest.raises(Unsupported, match=r"does not have the current version of .*later .*: hive-bitmap rebuild"):
        export(spark, base.name, "k", str(tmp_path / "exported"))


def test_hives_own_rebuild_loses_rows_where_ours_does_not(
    hive2: HiveServer, spark: SparkSession, hive2_database: str, tmp_path: Path
) -> None:
    """Of Parquet, read in other splits than it was built in; of ORC, REBUILD of a BITMAP index fails altogether."""
    spark.sql(f"CREATE DATABASE {hive2_database}")
    try:
        base = Base(f"{hive2_database}.t", tmp_path / "t")
        rows = spark.range(8000).selectExpr("id", "CAST(id DIV 400 AS int) AS k").coalesce(1)
        rows.write.options(**{"parquet.block.size": "8192", "compression": "none"}).parquet(str(base.folder))
        make = f"{base.name} (id bigint, k int) STORED AS PARQUET LOCATION 'file:{base.folder}'"
        spark.sql(f"CREATE TABLE {make}")
        hive_bitmap.build(spark, base.name, ["k"], encoding="ewah")
        queries = [f"SELECT id FROM {base.name} WHERE k = {key}" for key in (0, 9, 19)]
        with by_itself(hive2, base, 8_000) as connection:
            run(connection, f"CREATE EXTERNAL TABLE {make}")
            run(connection, f"CREATE INDEX own ON TABLE {base.name} (k) AS 'COMPACT' WITH DEFERRED REBUILD")
            run(connection, f"ALTER INDEX own ON {base.name} REBUILD")
        expected = [full_scan(hive2, query) for query in queries]
        with by_itself(hive2, base, 4_000) as connection:
            assert all(uses_index(connection, query) for query in queries)
            own = [Counter(run(connection, query)) for query in queries]
            assert sum(map(Counter.total, own)) < sum(map(Counter.total, expected)), "Hive has mended its index"
            run(connection, f"DROP INDEX own ON {base.name}")
            register_index(Server(connection), export(spark, base.name, "k", str(tmp_path / "exported")))
            assert all(uses_index(connection, query) for query in queries)
            assert [Counter(run(connection, query)) for query in queries] == expected

            run(connection, f"CREATE TABLE o STORED AS ORC AS SELECT * FROM {base.name}")
            run(connection, "CREATE INDEX own ON TABLE o (k) AS 'BITMAP' WITH DEFERRED REBUILD")
            with pytest.raises(Refused):
                run(connection, "ALTER INDEX own ON o REBUILD")
    finally:
        spark.sql(f"DROP DATABASE {hive2_database} CASCADE")


def test_keys_of_each_type_by_command_and_by_script(
    hive2: HiveServer, spark: SparkSession, hive2_database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unpartitioned table that Hive wrote; Hive reads the index table of each type by its own rules."""
    table = f"{hive2_database}.t"
    columns = "id int, c char(5), v varchar(5), d decimal(9,2), day date, b boolean, s string"
    asked = {
        "v": "v = 'ü 3'",
        "d": "d <= -1.75",
        "day": "day > '2020-01-05'",
        "b": "b = true",
        "s": "s >= 'text 4'",
    }
    with contextlib.closing(hive2.connect(hive2_database)) as connection:
        make = f"{table} ({columns}) STORED AS PARQUET LOCATION 'file:{tmp_path}/t'"
        run(connection, f"CREATE EXTERNAL TABLE {make} TBLPROPERTIES ('parquet.block.size'='4096')")
        keys = "concat('k', n), concat('ü ', n), n - 4.75, date_add('2020-01-01', n), n = 3, concat('text ', n)"
        numbers = "(SELECT posexplode(split(space(2099), ' ')) AS (pos, x)) a"
        numbers = f"(SELECT pos, CAST(pos DIV 300 AS int) AS n FROM {numbers}) b"
        run(connection, f"INSERT INTO {table} SELECT pos, {keys} FROM {numbers}")
        spark.sql(f"CREATE DATABASE {hive2_database}")
        try:
            spark.sql(f"CREATE TABLE {make}")
            hive_bitmap.build(spark, table, [[name] for name in ("c", *asked)], encoding="ewah")
            with pytest.raises(Unsupported, match=r"'c' is char\(5\): for this type Hive 2 would return other rows"):
                export(spark, table, "c", str(tmp_path / "exported"))
            for name in asked:
                capsys.readouterr()
                to = ["export-hive", table, name, str(tmp_path / "exported"), "--name", f"by_{name}"]
                if name == "v":
                    assert main(["--hiveserver2", f"{hive2.host}:{hive2.port}", *to]) == 0
                    assert "registered as index by_v" in capsys.readouterr().err
                else:
                    assert main(to) == 0
                    for statement in capsys.readouterr().out.split(";\n"):
                        if not statement.startswith("--") and statement:
                            run(connection, statement)
        finally:
            spark.sql(f"DROP DATABASE {hive2_database} CASCADE")
    base = Base(table, tmp_path / "t")
    with by_itself(hive2, base, 2_000) as connection:
        for predicate in asked.values():
            query = f"SELECT id FROM {table} WHERE {predicate}"
            expected = full_scan(hive2, query)
            assert expected and uses_index(connection, query), predicate
            assert Counter(run(connection, query)) == expected, predicate


def test_what_hive_could_not_use_is_refused(
    hive2: HiveServer, spark: SparkSession, hive2_database: str, tmp_path: Path
) -> None:
    spark.sql(f"CREATE DATABASE {hive2_database}")
    name, to = f"{hive2_database}.t", str(tmp_path / "exported")
    try:
        spark.sql(f"CREATE TABLE {name} (k int, x double) STORED AS PARQUET LOCATION 'file:{tmp_path}/t'")
        spark.sql(f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
        hive_bitmap.build(spark, name, ["k"])
        hive_bitmap.build(spark, name, ["x"], encoding="ewah")
        hive_bitmap.build(spark, name, ["k"], name="good", type="COMPACT")
        with pytest.raises(
            Unsupported, match="encoding gap, and Hive reads ewah only: hive-bitmap set t k encoding=ewah"
        ):
            export(spark, name, "k", to)
        with pytest.raises(Unsupported, match="'x' is double: for this type Hive 2 would return other rows"):
            export(spark, name, "x", to)
        good = export(spark, name, "good", to)
        with contextlib.closing(hive2.connect(hive2_database)) as connection:
            server = Server(connection, "Hive")
            with pytest.raises(NotFound, match="no table 't'"):
                register_index(server, good)
            run(
                connection,
                f"CREATE EXTERNAL TABLE {name} (k int, x double) STORED AS PARQUET LOCATION 'file:{tmp_path}'",
            )
            with pytest.raises(
                Unsupported, match=rf"has its files in file:{tmp_path} in Hive, not in file:{tmp_path}/t"
            ):
                register_index(server, good)
            run(connection, f"ALTER TABLE {name} SET LOCATION 'file:{tmp_path}/t'")
            run(connection, f"CREATE INDEX hive_good ON TABLE {name} (k) AS 'COMPACT' WITH DEFERRED REBUILD")
            with pytest.raises(AlreadyExists, match=r"is not an export of .*: drop it there, or give another --name"):
                register_index(server, good)
            run(connection, f"DROP INDEX hive_good ON {name}")
            register_index(server, good)
            register_index(server, export(spark, name, "good", to))  # in place of the one before, whose files go
            assert len(list((tmp_path / "exported").glob("*/*.parquet"))) == 1
            lost = export(spark, name, "good", to)
            shutil.rmtree(lost.root.removeprefix("file:"))
            with pytest.raises(NotFound, match="sees 0 of 2 index rows"):
                register_index(server, lost)
            assert run(connection, "SHOW INDEX ON t") == []
    finally:
        spark.sql(f"DROP DATABASE {hive2_database} CASCADE")
