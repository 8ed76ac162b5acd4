"""With an authorizer in Spark's plans, no file of a table is read, and no answer given, that it would not allow.

`authorizer/Authorizer.java` is compiled and is an extension of a Spark of its own: it filters, masks and refuses by
rules of the analyzer and the optimizer, which is how Ranger's plugin for Spark works.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
import pytest

from hive_bitmap.spark import java
from hive_bitmap.spark.metastore.permission import added_in
from tests.servers import jars

SOURCE = Path(__file__).parent / "authorizer" / "Authorizer.java"
SCRIPT = """
import json, sys
from pathlib import Path
import hive_bitmap
from hive_bitmap.errors import NotPermitted
from tests.asking import under

classes, warehouse = sys.argv[1:]
conf = {"spark.driver.extraClassPath": classes, "spark.sql.extensions": "Authorizer", "spark.driver.memory": "1g"}
spark = hive_bitmap.session(warehouse, master="local[1]", conf=conf)
spark.conf.set("hive_bitmap.planning_seconds", "60")
jvm, told = spark._jvm, {}
system = jvm.java.lang.System

def attempt(act):
    try:
        return act()
    except NotPermitted as e:
        return "NotPermitted: " + str(e)
    except Exception as e:
        return type(e).__name__ + ": " + str(e)

def forget():
    for name in ("authorizer.filter", "authorizer.mask", "authorizer.deny"):
        system.clearProperty(name)
    jvm.Authorizer.takeSeen()

def commands(statement):
    jvm.Authorizer.takeSeen()
    spark.sql(statement)
    return list(dict.fromkeys(jvm.Authorizer.takeSeen().split(",")))

forget()
spark.sql("CREATE TABLE t (k INT, c CHAR(3)) USING parquet")
spark.sql("INSERT INTO t SELECT CAST(id % 5 AS INT), 'x' FROM range(1000)")
told["create index"] = commands("CREATE INDEX k ON TABLE t (k, c) AS 'BITMAP'")
told["rebuild"] = commands("ALTER INDEX k ON t REBUILD")
spark.sql("INSERT INTO t VALUES (3, 'y')")
told["rebuild with something to do"] = commands("ALTER INDEX k ON t REBUILD")
told["plan"] = hive_bitmap.plan(spark, "t", "k = 3", count=True).strategy
spark.sql("CREATE TABLE m (g INT, k INT, n INT) USING parquet")
spark.sql("INSERT INTO m SELECT CAST(id % 3 AS INT), CAST(id % 5 AS INT), 2 FROM range(1000)")
hive_bitmap.build(spark, "m", ["g"], aggregates="sum(k * n) AS r")
SUMS = "SELECT g, sum(k * n) FROM m WHERE g < 2 GROUP BY g ORDER BY g"

def sums():
    with under(spark, {"hive_bitmap.strategy": "index only"}):
        plan = spark.sql(f"EXPLAIN {SUMS}").first()[0]
        return [tuple(row) for row in spark.sql(SUMS).collect()], "IndexAnswer" in plan

told["sums"] = sums()

for kind in ("filter", "mask", "deny"):
    forget()
    system.setProperty("authorizer." + kind, "t,m")
    told[kind] = {
        "sums": attempt(sums),
        "build sums": attempt(lambda: hive_bitmap.build(spark, "m", ["g"], name="other", aggregates="sum(k + n) AS o")),
        "rebuild sums": attempt(lambda: hive_bitmap.rebuild(spark, "m")),
        "verify sums": attempt(lambda: hive_bitmap.verify(spark, "m")),
        "count": attempt(lambda: hive_bitmap.count(spark, "t", "k = 3")),
        "scan": attempt(lambda: hive_bitmap.scan(spark, "t", "k = 3").count()),
        "rows": attempt(lambda: hive_bitmap.scan(spark, "t", "k = 3", strategy="rows").count()),
        "groups": attempt(lambda: sorted(hive_bitmap.group_counts(spark, "t", None, ["k"])["k"].to_pylist())),
        "sql": attempt(lambda: spark.sql("SELECT count(*) FROM t WHERE k = 3").first()[0]),
        "forced": None,
        "plan": attempt(lambda: hive_bitmap.plan(spark, "t", "k = 3", count=True).reason),
        "build": attempt(lambda: hive_bitmap.build(spark, "t", ["k"], name="other")),
        "create": attempt(lambda: spark.sql("CREATE INDEX other ON TABLE t (k) AS 'BITMAP'")),
        "rebuild": attempt(lambda: hive_bitmap.rebuild(spark, "t")),
        "estimate": attempt(lambda: hive_bitmap.estimate(spark, "t", ["k"])),
        "verify": attempt(lambda: hive_bitmap.verify(spark, "t")),
        "offsets": attempt(lambda: hive_bitmap.write_offsets(spark, "t", "k = 3", warehouse + "/offsets")),
        "keys": attempt(lambda: hive_bitmap.show(spark, "t", keys=True)),
        "left": [path.name for path in Path(warehouse).rglob("offsets")]
        + [row.tableName for row in spark.sql("SHOW TABLES LIKE '*other*'").collect()],
    }
    with under(spark, {"hive_bitmap.strategy": "index only"}):
        told[kind]["forced"] = attempt(lambda: spark.sql("SELECT count(*) FROM t WHERE k = 3").first()[0])

forget()
told["as before"] = hive_bitmap.count(spark, "t", "k = 3")
told["drop index"] = commands("DROP INDEX k ON t")
spark.sql("CREATE INDEX k ON TABLE t (k) AS 'BITMAP'")
told["drop table"] = commands("DROP TABLE t")
Path(warehouse, "told.json").write_text(json.dumps(told, default=str))
"""
REFUSED_SUMS = ("build sums", "rebuild sums", "verify sums")
REFUSED = ("build", "create", "rebuild", "estimate", "verify", "offsets", "keys", *REFUSED_SUMS)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the script tells, run in a process of its own."""
    folder = tmp_path_factory.mktemp("authorizer")
    (compiler,) = jars.resolve("ecj", ["org.eclipse.jdt:ecj:3.40.0"]).glob("ecj-*.jar")
    spark = sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    options = ["--release", "17", "-proc:none", "-nowarn", "-cp", os.pathsep.join(map(str, spark))]
    classes = folder / "classes"
    subprocess.run([java.executable(), "-jar", compiler, *options, "-d", classes, SOURCE], check=True)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, classes, folder / "warehouse"],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads((folder / "warehouse" / "told.json").read_text())
    return found


@pytest.mark.servers
def test_without_a_policy_everything_is_as_usual(told: dict[str, Any]) -> None:
    assert told["plan"] == "index only" and told["as before"] == 201


@pytest.mark.servers
@pytest.mark.parametrize(("kind", "rows", "groups"), [("filter", 0, [0, 1, 2, 4]), ("mask", 0, [0])])
def test_a_row_filter_and_a_mask_hold_for_every_answer(
    told: dict[str, Any], kind: str, rows: int, groups: list[int]
) -> None:
    found = told[kind]
    assert [found[how] for how in ("count", "scan", "rows", "sql", "forced")] == [rows] * 5
    assert found["groups"] == groups
    assert found["plan"] == "no row satisfies the predicate"
    for how in REFUSED:
        assert "only Spark may read them here, because a rule puts" in found[how], how
    assert found["left"] == []


@pytest.mark.servers
@pytest.mark.parametrize(("kind", "of_row"), [("filter", lambda k: 2 * k * (k != 3)), ("mask", lambda k: 0)])
def test_a_filter_or_mask_on_a_column_in_an_aggregated_expression(
    told: dict[str, Any], kind: str, of_row: Callable[[int], int]
) -> None:
    """The column k occurs only in the expression k * n that the index aggregates."""
    assert told["sums"] == [[[g, sum(2 * (i % 5) for i in range(1000) if i % 3 == g)] for g in (0, 1)], True]
    shown = [[g, sum(of_row(i % 5) for i in range(1000) if i % 3 == g)] for g in (0, 1)]
    assert told[kind]["sums"] == [shown, False]


@pytest.mark.servers
def test_who_may_not_read_a_table_gets_no_answer_and_builds_nothing(told: dict[str, Any]) -> None:
    for how in ("count", "scan", "rows", "groups", "sql", "forced", "sums", *REFUSED):
        assert "Permission denied: user [me]" in told["deny"][how], how
    for how in set(REFUSED) - {"create"}:
        assert told["deny"][how].startswith("NotPermitted: "), how
    assert told["deny"]["left"] == []


@pytest.mark.servers
def test_what_an_authorizer_sees_of_each_statement(told: dict[str, Any]) -> None:
    """The table in docs/guide/security.md."""
    assert told["create index"] == ["IndexCommand", "read t", "CreateTableCommand"]
    assert told["rebuild"] == ["IndexCommand", "read t"]
    assert told["rebuild with something to do"][:2] == ["IndexCommand", "read t"]
    assert told["drop index"] == ["IndexCommand", "DropTable"]
    assert told["drop table"] == ["DropTable"]


@pytest.mark.parametrize(
    ("plan", "added"),
    [
        ("Relation spark_catalog.d.t[k#1,s#2,... 30 more fields] parquet", ""),
        ("Project [k#1]\n+- HiveTableRelation [`d`.`t`, Serde, Data Cols: [k#1], Partition Cols: []]", ""),
        ("Project [static_invoke(CharVarcharCodegenUtils.readSidePadding(c#1, 3)) AS c#2]\n+- Relation t[c#1] orc", ""),
        ("Project [0 AS k#1]\n+- Relation t[k#1] parquet", "an expression"),
        (
            "Project [static_invoke(X.readSidePadding(c#1, 3)) AS c#2, 0 AS k#1]\n+- Relation t[k#1] orc",
            "an expression",
        ),
        ("Project [k#1, ... 30 more fields]\n+- Relation t[k#1] parquet", "an expression"),
        ("Project [k#1]\n+- Filter (k#1 < 3)\n   +- Relation t[k#1] parquet", "Filter"),
        ("LocalRelation <empty>, [k#1]", "LocalRelation"),
        ("InMemoryRelation [k#1], StorageLevel(disk)", "InMemoryRelation"),
        ("", "nothing that is shown"),
    ],
)
def test_a_client_of_spark_connect_sees_filters_and_masks_in_the_text_of_a_plan(plan: str, added: str) -> None:
    assert added_in(plan) == added
