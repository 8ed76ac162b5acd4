"""Every entry point of an installed hive_bitmap, each compared with plain Spark. It knows nothing of the checkout.

`python smoke.py GROUP REPORT` runs the entry points of a group, which share a process, in the current folder, and
appends a line of JSON for each to the file REPORT. An entry point is a function with `@entry`; what it asserts, or
raises, is told in the table of `make compat`. To add one, add a function.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import socket
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SESSION, PROGRAM, CONNECT, BARE = "session", "program", "connect", "bare"
# A group is a process, for a warehouse serves one process at a time, and a process has one kind of Spark.
GROUPS = (BARE, SESSION, PROGRAM, CONNECT)

COLUMNS = "k int, s string, d date, v double"
ROWS = "int(id % 7), concat('x', id % 3), date_add(DATE '2020-01-01', int(id % 5)), id / 4"
WHERE = "k = 3 AND s = 'x1'"
STRATEGIES = ("index only", "rows", "blocks", "files", "full scan")
TABLES = {  # name: what follows the columns
    "pq": "STORED AS PARQUET",
    "pq_parts": "PARTITIONED BY (p int) STORED AS PARQUET",
    "orc": "STORED AS ORC",
    "orc_parts": "PARTITIONED BY (p int) STORED AS ORC",
    "txt": "STORED AS TEXTFILE",
}
QUERIED = ("pq", "orc_parts", "txt")  # by SQL; the others differ in what a scan does
EMBEDDED = {  # a warehouse in the current folder
    "spark.driver.memory": "1g",
    "spark.sql.warehouse.dir": "warehouse",
    "spark.sql.catalogImplementation": "hive",
    "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:;databaseName=derby;create=true",
    "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
    "spark.hadoop.hive.metastore.schema.verification": "false",
}
ENCODED = {"pq": "gap", "pq_parts": "roaring", "orc": "ewah", "orc_parts": "plain", "txt": "gap"}


@dataclass(frozen=True)
class Entry:
    """An entry point: its row in the table, the process it runs in, and what runs it: with a session, or with none."""

    name: str
    group: str
    run: Callable[..., None]


ENTRIES: list[Entry] = []


def entry(name: str, group: str = SESSION) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Put a function into the table of entry points; they run in the order of this file."""

    def add(run: Callable[..., None]) -> Callable[..., None]:
        ENTRIES.append(Entry(name, group, run))
        return run

    return add


# What needs no Spark


@entry("import", BARE)
def import_() -> None:
    """It is the wheel that is imported, and every name is there."""
    import hive_bitmap

    assert Path(hive_bitmap.__file__).is_relative_to(sys.prefix), f"{hive_bitmap.__file__} is not of this environment"
    for name in hive_bitmap.__all__:
        assert getattr(hive_bitmap, name) is not None, name


@entry("PyHive", BARE)
def pyhive() -> None:
    """PyHive and its SASL load, and a server that is not there is told in one line."""
    from pyhive.hive import get_installed_sasl

    assert get_installed_sasl("localhost", "PLAIN", username="u", password="p")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    said = program("--hiveserver2", f"127.0.0.1:{port}", "show", "t", status=1)
    assert "cannot be reached: is it running" in said and "Traceback" not in said, said


# Python and SQL, in a session


@entry("session")
def session(spark: SparkSession) -> None:
    """The session is one of this environment's PySpark, and has tables."""
    import pyspark

    assert Path(pyspark.__file__).is_relative_to(sys.prefix), f"{pyspark.__file__} is not of this environment"
    assert spark.version.startswith(pyspark.__version__), (spark.version, pyspark.__version__)
    for name, kind in TABLES.items():
        spark.sql(f"CREATE TABLE {name} ({COLUMNS}) {kind}")
        insert(spark, name, 3000)


@entry("build")
def build(spark: SparkSession) -> None:
    """Parquet, ORC and text, partitioned or not, in all encodings; the index table is a plain one."""
    import hive_bitmap

    for name, encoding in ENCODED.items():
        reports = hive_bitmap.build(spark, name, ["k", "s", ["s", "d"]], encoding=encoding)
        assert [report.unindexed for report in reports] == [(), (), ()], reports
        expect([(report.base_rows,) for report in reports], [(spark.table(name).count(),)] * 3)
    expect(spark.sql("SELECT DISTINCT k FROM default__pq_k__"), spark.sql("SELECT DISTINCT k FROM pq"))


@entry("preview, rebuild, refresh")
def rebuild(spark: SparkSession) -> None:
    """What came since is read whole, then indexed."""
    import hive_bitmap

    for name in TABLES:
        insert(spark, name, 50)
        expect_counted(spark, name)
        assert all(one.files for one in hive_bitmap.preview(spark, name)), "nothing to read"
        hive_bitmap.rebuild(spark, name)
        expect_counted(spark, name, "index only")
        reports = hive_bitmap.refresh(spark, name)
        assert all(one.untouched and not one.files_read for one in reports), reports


@entry("show")
def show(spark: SparkSession) -> None:
    """All indexes are fresh."""
    import hive_bitmap

    for name in TABLES:
        for status in hive_bitmap.show(spark, name):
            assert status.fresh and not (status.stale or status.unindexed), status


@entry("plan, count")
def count(spark: SparkSession) -> None:
    """Counts and groups, by themselves and from the index."""
    import hive_bitmap

    for name in TABLES:
        assert hive_bitmap.plan(spark, name, WHERE, count=True).costs
        for strategy in (None, "index only", "full scan"):
            expect_counted(spark, name, strategy)
        groups = hive_bitmap.group_counts(spark, name, "k > 2", ["s"], strategy="index only")
        expect(
            [tuple(row.values()) for row in groups.to_pylist()],
            spark.sql(f"SELECT s, count(*) FROM {name} WHERE k > 2 GROUP BY s"),
        )


@entry("scan, Parquet")
def scan_parquet(spark: SparkSession) -> None:
    """Every strategy that can answer."""
    expect_scanned(spark, ("pq", "pq_parts"), {"rows", "files", "full scan"})


@entry("scan, ORC")
def scan_orc(spark: SparkSession) -> None:
    """Every strategy that can answer."""
    expect_scanned(spark, ("orc", "orc_parts"), {"blocks", "files", "full scan"})


@entry("scan, text")
def scan_text(spark: SparkSession) -> None:
    """Splits of Spark's own reader."""
    expect_scanned(spark, ("txt",), {"blocks", "full scan"})


@entry("SQL aggregates")
def aggregates(spark: SparkSession) -> None:
    """Answers of the index alone; EXPLAIN says that they are."""
    import hive_bitmap

    with settings(spark, strategy="index only"):
        for name in QUERIED:
            for query in (
                f"SELECT count(*) FROM {name} WHERE {WHERE}",
                f"SELECT s, d, count(*) AS n, min(s) FROM {name} GROUP BY s, d HAVING count(*) > 1 ORDER BY n, s, d",
                f"SELECT min(k), max(k), sum(k), avg(k), count(DISTINCT k) FROM {name}",
                f"SELECT DISTINCT s FROM {name}",
            ):
                expect(hive_bitmap.sql(spark, query), spark.sql(query))
                told = hive_bitmap.sql(spark, f"EXPLAIN {query}").collect()[0][0]
                assert "index only" in told, told


@entry("SQL sums")
def sums(spark: SparkSession) -> None:
    """Sums of a column and of an expression, from the index alone."""
    import hive_bitmap

    query = "SELECT s, sum(k), sum(3 * k - 1), avg(k * 3 - 1) FROM pq GROUP BY s"
    hive_bitmap.build(spark, "pq", ["s"], name="sums", aggregates="sum(k), sum(k * 3 - 1) AS m")
    with settings(spark, strategy="index only"):
        expect(hive_bitmap.sql(spark, query), spark.sql(query))
        told = hive_bitmap.sql(spark, f"EXPLAIN {query}").collect()[0][0]
        assert "IndexAnswer" in told, told
    hive_bitmap.drop(spark, "pq", "sums")


@entry("SQL joins")
def joins(spark: SparkSession) -> None:
    """Joins and subqueries with scans that are narrowed."""
    import hive_bitmap

    spark.sql("CREATE TABLE small STORED AS PARQUET AS SELECT int(id) AS k, concat('n', id) AS n FROM range(3)")
    with settings(spark, strategy="rows"):
        for name in QUERIED:
            for query in (
                f"SELECT a.k, a.v, small.n FROM {name} a JOIN small ON a.k = small.k WHERE small.n = 'n2'",
                f"SELECT a.* FROM {name} a LEFT JOIN {name} b ON a.v = b.v AND b.k = 5 WHERE a.s = 'x2' AND a.k = 4",
                f"SELECT * FROM {name} WHERE k IN (SELECT k FROM small WHERE n = 'n1')",
                f"SELECT s, sum(v) FROM {name} WHERE d = DATE '2020-01-02' GROUP BY s",
            ):
                expect(hive_bitmap.sql(spark, query), spark.sql(query))


@entry("SQL statements")
def statements(spark: SparkSession) -> None:
    """Hive's words and openLooKeng's."""
    import hive_bitmap

    sql = functools.partial(hive_bitmap.sql, spark)
    sql("CREATE INDEX by_day ON TABLE pq (d) AS 'COMPACT' WITH DEFERRED REBUILD COMMENT 'days'")
    sql("ALTER INDEX by_day ON pq REBUILD")
    sql("CREATE INDEX two_parts USING bitmap ON pq_parts (d) WHERE p IN (0, 1)")
    assert "by_day" in str(sql("SHOW FORMATTED INDEX ON pq").collect())
    assert "two_parts" in str(sql("SHOW INDEX").collect())
    expect(hive_bitmap.scan(spark, "pq", "d = DATE '2020-01-03'"), spark.table("pq").where("d = DATE '2020-01-03'"))
    sql("DROP INDEX by_day ON pq")
    sql("DROP INDEX two_parts")
    assert "by_day" not in str(sql("SHOW INDEX ON pq").collect())


@entry("advise")
def advise(spark: SparkSession) -> None:
    """What plain SQL asks is recorded, and advice is given on it; no metric fails a query."""
    import hive_bitmap

    hive_bitmap.enable(spark)
    before = hive_bitmap.advise(spark, table="pq").queries
    for value in range(3):
        spark.sql(f"SELECT k FROM pq WHERE s = 's{value}'").collect()
    found = hive_bitmap.advise(spark, table="pq")
    assert (found.queries, found.notes) == (before + 3, ()), found


@entry("auto_refresh")
def follow(spark: SparkSession) -> None:
    """An index follows inserts with dynamic partitions into a table of Spark's and one of a SerDe, and other writes."""
    import hive_bitmap

    hive_bitmap.enable(spark)
    for name, clauses in {"by_spark": "USING parquet PARTITIONED BY (p)", "by_serde": "STORED AS TEXTFILE"}.items():
        columns = "k int, v bigint" + (", p string)" if "USING" in clauses else ") PARTITIONED BY (p string)")
        spark.sql(f"CREATE TABLE {name} ({columns} {clauses}")
        insert = f"INSERT INTO {name} SELECT CAST(id % 7 AS int), id, IF(id % 3 = 0, NULL, 'a b') FROM range(100)"
        spark.sql(insert)
        hive_bitmap.build(spark, name, ["k"], auto_refresh=True, refresh_interval="1 second")
        spark.sql(insert)
        spark.sql(f"ALTER TABLE {name} ADD PARTITION (p = 'c')")
        assert hive_bitmap.refreshed(spark, 120)
        [status] = hive_bitmap.show(spark, name)
        assert (status.unindexed, status.stale) == (0, 0) and status.last_refresh is not None, status
        assert status.last_refresh.error == "" and hive_bitmap.count(spark, name, "k = 3") == 28
        spark.sql(f"DROP TABLE {name}")


@entry("enable")
def enable(spark: SparkSession) -> None:
    """Plain `spark.sql` and DataFrames through the optimizer rule in each strategy, and index statements in SQL."""
    import hive_bitmap

    told = {"blocks": "blocks by the bitmap index", "rows": "rows by the bitmap index", "index only": "IndexAnswer"}
    for name in ("pq", "orc_parts"):
        for strategy, word in told.items():
            query = f"SELECT {'count(*) AS n' if strategy == 'index only' else '*'} FROM {name} WHERE k = 3"
            hive_bitmap.disable(spark)
            wanted = [tuple(row) for row in spark.sql(query).collect()]
            hive_bitmap.enable(spark)
            for setting, value in {"strategy": strategy, "strict": "true", "planning_seconds": "60"}.items():
                spark.conf.set(f"hive_bitmap.{setting}", value)
            found = spark.sql(query)
            assert word in spark.sql(f"EXPLAIN {query}").collect()[0][0], (name, strategy)
            expect([tuple(row) for row in found.collect()], wanted)
        for setting in ("strategy", "strict", "planning_seconds"):
            spark.conf.unset(f"hive_bitmap.{setting}")
    spark.sql("CREATE INDEX in_sql ON TABLE pq (d) AS 'BITMAP'")
    assert "in_sql" in str(spark.sql("SHOW INDEX ON pq").collect())
    spark.sql("DROP INDEX in_sql ON pq")


@entry("offsets")
def offsets(spark: SparkSession) -> None:
    """A file for readers of compact indexes."""
    import hive_bitmap

    hive_bitmap.write_offsets(spark, "pq", WHERE, "pq.offsets")
    assert "/pq/" in Path("pq.offsets").read_text()


@entry("estimate, verify")
def verify(spark: SparkSession) -> None:
    """A sample is indexed, and the indexes are held against the files."""
    import hive_bitmap

    for name in TABLES:
        assert hive_bitmap.estimate(spark, name, ["d"])
        for found in hive_bitmap.verify(spark, name):
            assert not found.problems, found


@entry("clean, drop")
def drop(spark: SparkSession) -> None:
    """Old generations go, then indexes with their files, then a table with its indexes."""
    import hive_bitmap

    hive_bitmap.clean(spark, "pq", grace_seconds=0)
    expect_counted(spark, "pq", "index only")
    assert hive_bitmap.drop(spark, "pq", "k")
    hive_bitmap.drop_table(spark, "orc")
    left = {row.tableName for row in spark.sql("SHOW TABLES").collect()}
    assert "default__pq_s__" in left and not {"default__pq_k__", "default__orc_s__", "orc"} & left, left


# The program


@entry("hive-bitmap", PROGRAM)
def hive_bitmap_program() -> None:
    """A build and questions from the shell, in a folder that is no checkout."""
    program("--version")
    table = f"CREATE TABLE t ({COLUMNS}) STORED AS PARQUET; INSERT INTO t SELECT {ROWS} FROM range(3000)"
    program("sql", "-e", table)
    assert "3,000" in program("create", "t", "k", "s")
    told = program("query", "t", WHERE, "--count", "--explain", "--strategy", "index only")
    wanted = [str(sum(i % 7 == 3 and i % 3 == digit for i in range(3000))) for digit in range(3)]
    assert wanted[1] in told.split() and "index only" in told, told
    script = "SELECT s, count(*) FROM t WHERE k = 3 GROUP BY s ORDER BY s; DROP INDEX k ON t; SHOW INDEX ON t"
    told = program("sql", "-e", script)
    assert set(wanted) <= set(re.findall(r"\d+", told)) and "default__t_s__" in told, told


@entry("extension", PROGRAM)
def extension() -> None:
    """Spark's own SQL shell, where no Python runs: the jar and a setting, and a Python process is started."""
    import pyspark

    (jar,) = (line for line in program("jar").splitlines() if line.endswith(".jar"))
    table = "CREATE TABLE t STORED AS PARQUET AS SELECT int(id % 7) AS k, id AS v FROM range(3000)"
    settings = "SET hive_bitmap.strategy=blocks; SET hive_bitmap.planning_seconds=60"
    query = "SELECT count(v) + 1000000 FROM t WHERE k = 3"
    index = "CREATE INDEX i ON TABLE t (k) AS 'BITMAP'; SHOW INDEX ON t"
    script = f"{table}; {index}; {settings}; EXPLAIN {query}; {query}"
    conf = {"spark.jars": jar, "spark.sql.extensions": "hive_bitmap.catalyst.BitmapExtension", **EMBEDDED}
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"]
    for name, value in {**conf, "spark.hive_bitmap.python": sys.executable}.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.hive.thriftserver.SparkSQLCLIDriver", "spark-internal"]
    Path("shell").mkdir()
    done = subprocess.run([*command, "-e", script], cwd="shell", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-1500:]
    for word in ("default__t_i__", "blocks by the bitmap index", str(1000000 + sum(i % 7 == 3 for i in range(3000)))):
        assert word in done.stdout, f"{word} is not in {done.stdout[-1000:]}{done.stderr[-1000:]}"


# Spark Connect


@entry("Connect", CONNECT)
def connect(spark: SparkSession) -> None:
    """The same through a client that has no JVM at hand."""
    import hive_bitmap

    assert "connect" in type(spark).__module__
    for name in ("pq", "orc_parts"):
        spark.sql(f"CREATE TABLE {name} ({COLUMNS}) {TABLES[name]}")
        insert(spark, name, 500)
        hive_bitmap.build(spark, name, ["k", "s"])
        insert(spark, name, 20)
        expect_counted(spark, name)
        hive_bitmap.rebuild(spark, name)
        expect_counted(spark, name)
        expect(hive_bitmap.scan(spark, name, WHERE), spark.table(name).where(WHERE))
        for query in (
            f"SELECT s, count(*) AS n FROM {name} WHERE k < 3 GROUP BY s",
            f"SELECT a.v, b.d FROM {name} a JOIN {name} b ON a.v = b.v AND b.s = 'x2' WHERE a.k = 3",
        ):
            expect(hive_bitmap.sql(spark, query), spark.sql(query))
        hive_bitmap.drop_table(spark, name)


# What entry points share


def insert(spark: SparkSession, name: str, rows: int) -> None:
    """As many rows into a table, in two files or in three partitions."""
    part = ", int(id % 3)" if "PARTITIONED" in TABLES[name] else ""
    spark.sql(f"INSERT INTO {name} SELECT {ROWS}{part} FROM range(0, {rows}, 1, 2)").collect()


def expect(found: DataFrame | list[tuple[Any, ...]], wanted: DataFrame | list[tuple[Any, ...]]) -> None:
    """The same rows, in any order; of frames the same names and types."""
    if not isinstance(found, list) and not isinstance(wanted, list):
        types = [[(field.name, field.dataType) for field in frame.schema] for frame in (found, wanted)]
        assert types[0] == types[1], types
    rows = (frame if isinstance(frame, list) else frame.collect() for frame in (found, wanted))
    mine, right = (sorted(str(tuple(row)) for row in some) for some in rows)
    assert right, "Spark has no rows: this compares nothing"
    assert mine == right, f"{len(mine)} rows, {mine[:5]}, where Spark has {len(right)}, {right[:5]}"


def expect_counted(spark: SparkSession, name: str, strategy: str | None = None) -> None:
    """The rows of WHERE are counted right."""
    import hive_bitmap

    expect([(hive_bitmap.count(spark, name, WHERE, strategy=strategy),)], [(spark.table(name).where(WHERE).count(),)])


def expect_scanned(spark: SparkSession, names: tuple[str, ...], wanted: set[str]) -> None:
    """The rows of a predicate in each strategy that can answer, which must be those that are wanted at least."""
    import hive_bitmap

    for name in names:
        for where in (WHERE, "k = 6 OR d > DATE '2020-01-04'", "NOT s IN ('x0', 'x1') AND v < 300"):
            possible = [one for one in STRATEGIES if one in {*hive_bitmap.plan(spark, name, where).costs, "full scan"}]
            assert wanted <= set(possible), (name, where, possible)
            for strategy in possible:
                expect(hive_bitmap.scan(spark, name, where, strategy=strategy), spark.table(name).where(where))


@contextlib.contextmanager
def settings(spark: SparkSession, **values: str) -> Iterator[None]:
    """Settings of hive_bitmap, for the block."""
    for name, value in values.items():
        spark.conf.set(f"hive_bitmap.{name}", value)
    try:
        yield
    finally:
        for name in values:
            spark.conf.unset(f"hive_bitmap.{name}")


def program(*arguments: str, status: int = 0) -> str:
    """What `hive-bitmap` prints; it must end with this status."""
    path = Path(sys.executable).with_name("hive-bitmap")
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == status, f"hive-bitmap {' '.join(arguments)}: {done.returncode}: {done.stderr[-1000:]}"
    return done.stdout + done.stderr


def _classic() -> SparkSession:
    import hive_bitmap

    conf = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
    return hive_bitmap.session("warehouse", master="local[2]", conf=conf)


def _remote() -> SparkSession:
    from pyspark.sql import SparkSession

    warnings.simplefilter("ignore")  # settings that only the server's start may set
    here = Path.cwd()
    conf = {
        "spark.driver.memory": "1g",
        "spark.sql.warehouse.dir": str(here / "warehouse"),
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={here}/derby;create=true",
        "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
        "spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={here}/derby.log",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.remote("local[2]")
    for name, value in conf.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main(group: str, report: str) -> None:
    """Run a group; what one entry point raises does not keep the next from running."""
    given: list[Any] = []
    with open(report, "a", buffering=1) as told:
        for one in (found for found in ENTRIES if found.group == group):
            started, error = time.monotonic(), ""
            try:
                if group in (SESSION, CONNECT) and not given:
                    given.append(_classic() if group == SESSION else _remote())
                one.run(*given)
            except Exception as e:  # noqa: BLE001 - whatever it is, the table tells it
                traceback.print_exc()
                error = f"{type(e).__name__}: {e}".strip()[:1500]
            told.write(json.dumps({"name": one.name, "seconds": time.monotonic() - started, "error": error}) + "\n")
    if given:
        given[0].stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
