"""The extension in real servers, where no Python of ours runs: Thrift, Connect, a standalone cluster.

What only starts is Spark's: each server is configured by `spark.jars` and `spark.sql.extensions` alone.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from hive_bitmap.spark.jvm_bridge import EXTENSION, JAR
from tests import test_imports
from tests.servers import connectserver, standalone, thriftserver
from tests.servers.fixtures import started
from tests.servers.hiveserver import HiveServer, Refused, run

CONF = {"spark.jars": str(JAR), "spark.sql.extensions": EXTENSION, "spark.hive_bitmap.python": sys.executable}
SETTINGS = {"hive_bitmap.strategy": "blocks", "hive_bitmap.planning_seconds": "60"}
MAKE = [
    "CREATE TABLE t (k int, s string, v bigint) STORED AS PARQUET",
    "INSERT INTO t SELECT /*+ REPARTITION_BY_RANGE(8, k) */ k, s, v FROM "
    "(SELECT CAST(id % 50 AS int) AS k, concat('x', id % 3) AS s, id AS v FROM range(20000))",
    "CREATE INDEX i ON TABLE t (k) AS 'BITMAP'",
]
FOLLOWED = [
    "CREATE TABLE f (k int, v bigint) PARTITIONED BY (p int) STORED AS PARQUET",
    "INSERT INTO f SELECT CAST(id % 5 AS int), id, CAST(id % 3 AS int) FROM range(100)",
    "CREATE INDEX f_k ON TABLE f (k) AS 'BITMAP' "
    "IDXPROPERTIES ('auto_refresh' = 'true', 'refresh_interval' = '1 second')",
]
QUERY = "SELECT s, v FROM t WHERE k = {k} ORDER BY v"
COUNT = "SELECT count(*) FROM t WHERE k IN ({k}, 7)"
IMPORTED = re.compile(r"import '(hive_bitmap\b[\w.]*)' #")  # in what `python -v` prints
READY = re.compile(r"the Python process of hive_bitmap is ready: (\d+)")
SECONDS = 120  # for a process to start, on a machine that does much else
pytestmark = [pytest.mark.servers, pytest.mark.xdist_group("extension")]


def expected(k: int) -> list[tuple[str, int]]:
    """The answer to QUERY."""
    return [(f"x{v % 3}", v) for v in range(20000) if v % 50 == k]


def helpers(folder: Path) -> list[int]:
    """The processes that became ready in a server, by its log."""
    return [int(number) for number in READY.findall((folder / "log").read_text(errors="replace"))]


@pytest.fixture(scope="module")
def thrift_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("extension_thrift")


def python_that_tells_imports(folder: Path) -> str:
    """A Python for the helper and for tasks; the server's log shows what the helper imports."""
    program = folder / "python"
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *catalyst.helper*) exec {sys.executable} -v "$@" ;; esac\n'
        f'exec {sys.executable} "$@"\n'
    )
    program.chmod(0o755)
    return str(program)


@pytest.fixture(scope="module")
def thrift(thrift_folder: Path) -> Iterator[HiveServer]:
    """A Thrift Server with the extension, whose table `t` has an index that was made there."""
    conf = {**CONF, "spark.hive_bitmap.python": python_that_tells_imports(thrift_folder)}
    with started(thriftserver.serving(thrift_folder, conf=conf)) as server:
        with session(server) as connection:
            for statement in MAKE:
                assert bool(run(connection, statement)) == ("CREATE INDEX" in statement)
        yield server


@contextlib.contextmanager
def session(server: HiveServer, username: str = "hive", **settings: str) -> Iterator[Any]:
    with contextlib.closing(server.connect(username=username)) as connection:
        for name, value in {**SETTINGS, **settings}.items():
            run(connection, f"SET {name}={value}")
        yield connection


def explained(connection: Any, query: str) -> str:
    return str(run(connection, f"EXPLAIN {query}")[0][0])


def test_a_jdbc_client_uses_an_index(thrift: HiveServer) -> None:
    with session(thrift) as connection:
        assert "blocks by the bitmap index: 1 of 8 blocks, 1 of 8 files" in explained(connection, QUERY.format(k=3))
        assert run(connection, QUERY.format(k=3)) == expected(3)
        assert "IndexAnswer default.t by i" in explained(connection, "SELECT count(*) FROM t WHERE k = 3")
        assert run(connection, COUNT.format(k=3)) == [(800,)]
        run(connection, "SET hive_bitmap.strategy=rows")
        assert "rows by the bitmap index" in explained(connection, QUERY.format(k=3))
        assert run(connection, QUERY.format(k=3)) == expected(3)
        run(connection, "SET hive_bitmap.enabled=false")
        assert "index" not in explained(connection, QUERY.format(k=3)).lower().replace("inmemoryfileindex", "")
        assert run(connection, QUERY.format(k=3)) == expected(3)


def test_sessions_have_settings_and_databases_of_their_own(thrift: HiveServer) -> None:
    with session(thrift) as one, session(thrift, **{"hive_bitmap.enabled": "false"}) as other:
        run(other, "CREATE DATABASE elsewhere")
        run(other, "USE elsewhere")
        run(other, "CREATE TABLE t AS SELECT 1 AS a")
        run(other, "CREATE INDEX j ON TABLE t (a) AS 'BITMAP'")
        assert "bitmap index" not in explained(other, "SELECT * FROM default.t WHERE k = 3")
        assert "bitmap index" in explained(one, "SELECT * FROM t WHERE k = 3")
        assert [row[:3] for row in run(one, "SHOW INDEX ON t")] == [("i", "t", "k")]
        assert [row[:3] for row in run(other, "SHOW INDEX ON t")] == [("j", "t", "a")]
        run(other, "DROP DATABASE elsewhere CASCADE")
        assert run(other, "SHOW DATABASES") == [("default",)]


def test_statements_of_ours_and_of_sparks(thrift: HiveServer) -> None:
    with session(thrift) as connection:
        run(connection, "CREATE TABLE u STORED AS PARQUET AS SELECT id AS a FROM range(100)")
        run(connection, "/* ours */ create index a_ using bitmap on u (a)")
        assert [row[0] for row in run(connection, "SHOW INDEX")] == ["a_", "i"]
        run(connection, "ALTER INDEX a_ ON u REBUILD")
        with pytest.raises(Refused, match=r"index a_ already exists on table default\.u"):
            run(connection, "CREATE INDEX a_ ON TABLE u (a) AS 'BITMAP'")
        with pytest.raises(Refused, match="line 1, column 33: mismatched input 'AZ', expecting AS"):
            run(connection, "CREATE INDEX a_ ON TABLE u (a)  AZ 'BITMAP'")
        with pytest.raises(Refused, match="TABLE_OR_VIEW_NOT_FOUND"):
            run(connection, "DROP TABLE unheard_of")
        with pytest.raises(Refused, match="PARSE_SYNTAX_ERROR"):
            run(connection, "CREATE INDEXES ON u")
        with pytest.raises(Refused, match="drop it with DROP INDEX"):
            run(connection, "DROP TABLE default__u_a___")
        run(connection, "DROP TABLE u")
        assert [row[1] for row in run(connection, "SHOW TABLES")] == ["default__t_i__", "t"]


@pytest.mark.parametrize("writes", [False, True])
def test_what_a_client_creates_is_the_clients_own(thrift: HiveServer, writes: bool) -> None:
    """Whoever asked Python before, whose thread may answer now: another client, or the server itself after a write."""
    for name in ("ann", "bob"):
        with session(thrift, name) as connection:
            run(connection, "CREATE TABLE own STORED AS PARQUET AS SELECT id AS a FROM range(100)")
            if writes:
                run(connection, "INSERT INTO t SELECT 1, 'x', 1 WHERE false")
            run(connection, "CREATE INDEX a ON TABLE own (a) AS 'BITMAP'")
            assert run(connection, "SHOW INDEX a")[0][6] == "OK"
            for table in ("own", "default__own_a__"):
                described = dict(row[:2] for row in run(connection, f"DESCRIBE EXTENDED {table}"))
                assert described["Owner"] == name
            run(connection, "DROP TABLE own")


def test_what_a_jdbc_client_inserts_is_followed(thrift: HiveServer, thrift_folder: Path) -> None:
    """By the server, as its own user: the first client, who had the Python process started, is another."""
    with session(thrift) as connection:
        for statement in FOLLOWED:
            run(connection, statement)
        run(connection, "INSERT INTO f SELECT CAST(id % 5 AS int), id, 7 FROM range(50)")
        wait_until_ok(connection)
        assert run(connection, "SELECT count(*) FROM f WHERE k = 3") == [(30,)]
        run(connection, "DROP TABLE f")
    log = (thrift_folder / "log").read_text(errors="replace")
    life = log.rpartition("tableName:default__f_f_k__,")[2].partition("drop_table : db=default tbl=default__f_f_k__")[0]
    created, inserted, refreshed = re.findall(r"audit: ugi=(\S+).*cmd=add_partitions", life)
    assert (created, inserted, refreshed) == ("hive", "hive", getpass.getuser())


def wait_until_ok(connection: Any) -> None:
    """Wait until the index of FOLLOWED knows all files."""
    end = time.monotonic() + SECONDS
    while run(connection, "SHOW INDEX f_k")[0][6] != "OK":
        assert time.monotonic() < end
        time.sleep(0.5)


def test_a_helper_that_is_killed_comes_back_and_no_answer_is_wrong(thrift: HiveServer, thrift_folder: Path) -> None:
    answers = []
    before = helpers(thrift_folder)
    with session(thrift) as connection:
        for number in range(100):
            if number == 30:  # while a query is planned or run
                killer = threading.Timer(0.05, os.kill, (before[-1], signal.SIGKILL))
                killer.start()
            run(connection, f"SET hive_bitmap.strategy={('blocks', 'rows', 'index only')[number % 3]}")
            text = COUNT if number % 3 == 2 else QUERY
            answers.append((number, run(connection, text.format(k=number % 5))))
        killer.join()
        for number, rows in answers:
            assert rows == ([(800,)] if number % 3 == 2 else expected(number % 5)), number
        run(connection, "SET hive_bitmap.strategy=blocks")
        end = time.monotonic() + SECONDS
        while "bitmap index" not in explained(connection, QUERY.format(k=3)) and time.monotonic() < end:
            time.sleep(0.5)
        assert len(helpers(thrift_folder)) == len(before) + 1
        assert run(connection, QUERY.format(k=3)) == expected(3)


def test_a_statement_waits_for_a_helper_that_was_killed(thrift: HiveServer, thrift_folder: Path) -> None:
    with session(thrift) as connection:
        run(connection, "SHOW INDEX ON t")
        os.kill(helpers(thrift_folder)[-1], signal.SIGKILL)
        end = time.monotonic() + SECONDS
        rows = []
        while not rows and time.monotonic() < end:
            try:
                rows = run(connection, "SHOW INDEX ON t")
            except Refused as e:  # the one that was asked before its death was noticed
                assert "ended while it executed this statement" in str(e)
        assert [row[:3] for row in rows] == [("i", "t", "k")]


def test_a_helper_that_has_only_counted_has_loaded_what_counts_need(thrift: HiveServer, thrift_folder: Path) -> None:
    with session(thrift) as connection:
        run(connection, "ALTER INDEX i ON t REBUILD")  # files that another test has written are followed otherwise
        before = len((thrift_folder / "log").read_text(errors="replace"))
        os.kill(helpers(thrift_folder)[-1], signal.SIGKILL)
        end = time.monotonic() + SECONDS
        while "IndexAnswer" not in explained(connection, COUNT.format(k=3)) and time.monotonic() < end:
            time.sleep(0.5)
        assert run(connection, COUNT.format(k=3)) == [(800,)]
    names = set(IMPORTED.findall((thrift_folder / "log").read_text(errors="replace")[before:]))
    assert "hive_bitmap.core.answering.tally" in names
    parts = {test_imports.part_of(name.removeprefix("hive_bitmap.")) for name in names}
    assert parts & test_imports.NOT_OF_HELPER == set()
    assert len(names) <= test_imports.MOST_AFTER_A_COUNT, sorted(names)


def test_a_helper_that_is_stopped_holds_up_no_drop(thrift: HiveServer, thrift_folder: Path) -> None:
    """What has no index is dropped without it; of a table that has one, the index stays, and the log says so."""
    with session(thrift) as connection:
        run(connection, "CREATE TABLE plain STORED AS PARQUET AS SELECT 1 AS a")
        run(connection, "CREATE TABLE held STORED AS PARQUET AS SELECT 1 AS a")
        run(connection, "CREATE INDEX i ON TABLE held (a) AS 'BITMAP'")
        run(connection, "CREATE DATABASE bare")
        run(connection, "CREATE TABLE bare.plain STORED AS PARQUET AS SELECT 1 AS a")
        helper = helpers(thrift_folder)[-1]
        os.kill(helper, signal.SIGSTOP)
        try:
            for statement in ("DROP TABLE plain", "DROP TABLE IF EXISTS unheard_of", "DROP DATABASE bare CASCADE"):
                run(connection, statement)
            assert "are not dropped" not in (thrift_folder / "log").read_text(errors="replace")
            run(connection, "DROP TABLE held")
        finally:
            os.kill(helper, signal.SIGCONT)
        log = (thrift_folder / "log").read_text(errors="replace")
        dropped = "DROP TABLE `spark_catalog`.`default`.`held`"
        assert f"{dropped}: its indexes, if it has any, are not dropped: drop those that SHOW INDEX shows" in log
        assert "the Python process of hive_bitmap has not answered in 60 s" in log
        assert run(connection, "SHOW DATABASES") == [("default",)]
        assert [row[1] for row in run(connection, "SHOW TABLES")] == ["default__held_i__", "default__t_i__", "t"]
        run(connection, "/* hive_bitmap */ DROP TABLE default__held_i__")  # as Python would


def test_a_database_is_dropped_with_its_indexes_by_any_name(thrift: HiveServer) -> None:
    with session(thrift) as connection:
        run(connection, "CREATE DATABASE apart")
        for place in ("", " IN TABLE named", " IN TABLE apart.named"):
            run(connection, "CREATE DATABASE doomed")
            run(connection, "CREATE TABLE doomed.u STORED AS PARQUET AS SELECT id AS a FROM range(100)")
            run(connection, f"CREATE INDEX i ON TABLE doomed.u (a) AS 'BITMAP' WITH DEFERRED REBUILD{place}")
            run(connection, "DROP DATABASE doomed CASCADE")
            assert run(connection, "SHOW DATABASES") == [("apart",), ("default",)]
            assert run(connection, "SHOW TABLES IN apart") == []
            assert not [*(thrift.warehouse / "doomed.db").glob("*"), *(thrift.warehouse / "apart.db").glob("*")]
        run(connection, "DROP DATABASE apart")


def test_a_server_without_a_python_says_so_and_goes_on(tmp_path: Path) -> None:
    conf = {**CONF, "spark.hive_bitmap.python": "/nowhere/python"}
    with started(thriftserver.serving(tmp_path, conf=conf)) as server, session(server) as connection:
        for statement in MAKE[:-1]:
            run(connection, statement)
        assert run(connection, QUERY.format(k=3)) == expected(3)
        with pytest.raises(Refused, match=r"/nowhere/python cannot be started .*: set spark\.hive_bitmap\.python"):
            run(connection, MAKE[-1])
        run(connection, "DROP TABLE t")
        assert run(connection, "SHOW TABLES") == []
    assert "set spark.hive_bitmap.python to a Python that has hive_bitmap" in (tmp_path / "log").read_text()


CLIENT = """
import json, sys, time
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
for name, value in json.loads(sys.argv[2]).items():
    spark.conf.set(name, value)
for statement in json.loads(sys.argv[3]):
    spark.sql(statement)
said = {"connect": "connect" in type(spark).__module__}
query = "SELECT s, v FROM t WHERE k = 3 ORDER BY v"
said["explain"] = spark.sql(f"EXPLAIN {query}").collect()[0][0]
said["frame"] = spark.table("t").where("k = 3")._explain_string()
said["rows"] = [list(row) for row in spark.sql(query).collect()]
said["indexes"] = [list(row) for row in spark.sql("SHOW INDEX ON t").collect()]
spark.sql("CREATE INDEX r ON TABLE t (s) AS 'BITMAP' IDXPROPERTIES ('aggregates' = 'sum(v * 2 + k) AS r')")
spark.conf.set("hive_bitmap.strategy", "index only")
sums = "SELECT s, sum(2 * v + k) FROM t GROUP BY s ORDER BY s"
said["sums"] = [list(row) for row in spark.sql(sums).collect()]
said["sums explained"] = spark.sql(f"EXPLAIN {sums}").collect()[0][0]
try:
    spark.sql("CREATE INDEX i ON TABLE t (k) AS 'BITMAP'")
except Exception as e:
    said["twice"] = str(e)
for statement in json.loads(sys.argv[4]):
    spark.sql(statement)
spark.range(50).selectExpr("CAST(id % 5 AS int) AS k", "id AS v", "7 AS p").write.insertInto("f")
for _ in range(240):
    said["followed"] = spark.sql("SHOW INDEX f_k").collect()[0][6]
    if said["followed"] == "OK":
        break
    time.sleep(0.5)
said["of the new"] = spark.sql("SELECT count(*) FROM f WHERE k = 3").collect()[0][0]
spark.sql("DROP TABLE f")
spark.sql("DROP TABLE t")
said["tables"] = [row.tableName for row in spark.sql("SHOW TABLES").collect()]
print(json.dumps(said))
spark.stop()
"""


def test_a_connect_client_uses_an_index(tmp_path: Path) -> None:
    missing = [name for name in ("grpc", "grpc_status", "google.rpc", "zstandard", "pandas") if not _is_there(name)]
    if missing:
        pytest.skip(f"Spark Connect needs {', '.join(missing)}: install hive_bitmap[connect]")
    with started(connectserver.serving(tmp_path, CONF)) as address:
        said = _said(CLIENT, address, json.dumps(SETTINGS), json.dumps(MAKE), json.dumps(FOLLOWED))
    assert said["connect"]
    assert "blocks by the bitmap index: 1 of 8 blocks" in said["explain"]
    assert "blocks by the bitmap index: 1 of 8 blocks" in said["frame"]
    assert [tuple(row) for row in said["rows"]] == expected(3)
    assert [row[:3] for row in said["indexes"]] == [["i", "t", "k"]]
    assert "IndexAnswer default.t by r" in said["sums explained"]
    assert said["sums"] == [[f"x{x}", sum(2 * v + v % 50 for v in range(x, 20000, 3))] for x in range(3)]
    assert "index i already exists on table default.t" in said["twice"]
    assert said["followed"] == "OK" and said["of the new"] == 30
    assert said["tables"] == []


APPLICATION = """
import json, sys, time
from pyspark.sql import SparkSession
builder = SparkSession.builder.master(sys.argv[1])
for name, value in json.loads(sys.argv[2]).items():
    builder = builder.config(name, value)
spark = builder.enableHiveSupport().getOrCreate()
for statement in json.loads(sys.argv[3]):
    spark.sql(statement)
query = "SELECT s, v FROM t WHERE k IN (3, 45) ORDER BY v"
said = {"explain": spark.sql(query)._jdf.queryExecution().executedPlan().treeString()}
said["rows"] = [list(row) for row in spark.sql(query).collect()]
executors = spark.sparkContext._jsc.sc().statusStore().executorList(True)
said["tasks"] = {executors.apply(at).id(): executors.apply(at).totalTasks() for at in range(executors.size())}
import hive_bitmap
hive_bitmap.enable(spark)  # from now on this process answers, and the other ends
said["again"] = spark.sql(query)._jdf.queryExecution().executedPlan().treeString()
said["rows again"] = [list(row) for row in spark.sql(query).collect()]
print(json.dumps(said))
spark.stop()
"""


def test_executors_of_a_cluster_read_selected_blocks(tmp_path: Path) -> None:
    home = tmp_path / "driver"
    home.mkdir()
    conf = {**connectserver.embedded(home), **CONF, **SETTINGS, "spark.driver.memory": "1g"}
    conf |= {"spark.executor.memory": "512m", "spark.executor.cores": "1"}
    with started(standalone.serving(tmp_path)) as master:
        said = _said(APPLICATION, master, json.dumps(conf), json.dumps(MAKE), cwd=home)
    wanted = sorted([*expected(3), *expected(45)], key=lambda row: row[1])
    for rows, plan in (("rows", "explain"), ("rows again", "again")):
        assert [tuple(row) for row in said[rows]] == wanted
        assert "blocks by the bitmap index: 2 of 8 blocks" in said[plan]
        assert "Batched: true" in said[plan]
    tasks = said["tasks"]
    assert tasks.pop("driver") == 0
    assert len(tasks) == standalone.WORKERS and all(tasks.values())


UNSTARTABLE = """
import json, sys, time
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]")
for name, value in json.loads(sys.argv[1]).items():
    builder = builder.config(name, value)
spark = builder.enableHiveSupport().getOrCreate()
spark.sql("CREATE TABLE t USING parquet AS SELECT 1 AS k")
conf, said, began = spark.sparkContext._jsc.sc().conf(), {}, time.monotonic()
conf.set("spark.hive_bitmap.python", "no" + chr(0) + "name")
try:
    spark.sql("SHOW INDEX ON t")
except Exception as e:
    said["refused"] = str(e)
said["seconds"] = time.monotonic() - began
conf.set("spark.hive_bitmap.python", sys.executable)
time.sleep(3)  # longer than the pause before it is started again
said["indexes"] = spark.sql("SHOW INDEX ON t").count()
print(json.dumps(said))
spark.stop()
"""


def test_a_process_that_could_not_be_started_is_started_again(tmp_path: Path) -> None:
    """Java itself refuses this name of a program, by no error of input or output, as py4j does if it has no port."""
    conf = {**connectserver.embedded(tmp_path), **CONF, "spark.driver.memory": "1g"}
    said = _said(UNSTARTABLE, json.dumps(conf), cwd=tmp_path)
    assert "cannot be started" in said["refused"] and said["seconds"] < 50
    assert said["indexes"] == 0


def _is_there(name: str) -> bool:
    return find_spec(name.partition(".")[0]) is not None


def _said(script: str, *arguments: str, cwd: Path | None = None) -> dict[str, Any]:
    """What a script prints in its last line, run in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=cwd,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said
