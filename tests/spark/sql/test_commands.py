"""Index statements executed on real tables: SHOW INDEX after them, and queries compared with Spark's full scan."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.errors import AlreadyExists, HiveBitmapError, InvalidProperty, InvalidStatement, NotFound, Unsupported
from hive_bitmap.spark.metastore import metastore
from hive_bitmap.spark.metastore.table_ddl import OWN_STATEMENT
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.sql import show_index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREDICATES = ["k IN ('b', 'c') OR n = 3", "k IS NULL"]


@pytest.fixture
def sales(spark: SparkSession, database: str) -> str:
    spark.sql("CREATE TABLE sales (id bigint, k string, n int) STORED AS PARQUET")
    append(spark, "sales")
    return "sales"


@pytest.fixture
def by_day(spark: SparkSession, database: str) -> str:
    """Create an ORC table with partitions for days 1 to 4 and NULL."""
    spark.sql("CREATE TABLE by_day (id bigint, k string, n int) PARTITIONED BY (day int) STORED AS ORC")
    append(spark, "by_day", "IF(id % 5 = 0, NULL, CAST(id % 5 AS int))")
    return "by_day"


def append(spark: SparkSession, table: str, *more: str) -> None:
    k = "element_at(array('a', 'b', 'c', 'd', NULL), CAST(1 + id DIV 5 % 5 AS int))"
    spark.range(100).selectExpr("id", k, "CAST(id % 7 AS int)", *more).coalesce(1).write.insertInto(table)


def run(spark: SparkSession, *texts: str) -> None:
    for text in texts:
        frame = hive_bitmap.sql(spark, text)
        done = len(frame.collect()) <= 1 and frame.columns == [name for name, _ in show_index.RESULT_COLUMNS]
        assert done or (frame.columns, frame.collect()) == ([], [])


def listed(spark: SparkSession, text: str, *columns: str) -> list[tuple[str, ...]]:
    rows = hive_bitmap.sql(spark, text).collect()
    return [tuple(row[column] for column in columns) for row in rows]


def require_right_answers(spark: SparkSession, table: str, *more: str) -> None:
    for predicate in [*PREDICATES, *more]:
        expected = Counter(spark.table(table).where(predicate).collect())
        assert Counter(hive_bitmap.scan(spark, table, predicate).collect()) == expected
        assert hive_bitmap.count(spark, table, predicate) == expected.total()


def files_of(spark: SparkSession, database: str) -> list[str]:
    folder = Path(spark.catalog.getDatabase(database).locationUri.removeprefix("file:"))
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]


STATE = ("Index Name", "Index Status", "Partitions")


@pytest.mark.contract
def test_the_life_of_an_index_in_the_words_of_hive(spark: SparkSession, database: str, by_day: str) -> None:
    run(spark, "CREATE INDEX idx ON TABLE by_day (n, k) AS 'COMPACT' WITH DEFERRED REBUILD COMMENT 'it''s new'")
    assert [tuple(row) for row in hive_bitmap.sql(spark, "SHOW FORMATTED INDEX ON by_day").collect()] == [
        ("idx", "by_day", "k, n", f"{database}__by_day_idx__", "compact", "it's new")
    ]
    [status] = hive_bitmap.show(spark, by_day)
    assert (status.fresh, status.unindexed) == (0, 5)
    run(spark, "ALTER INDEX idx ON by_day PARTITION (DAY=01) REBUILD")
    run(spark, "ALTER INDEX idx ON by_day PARTITION (day='__HIVE_DEFAULT_PARTITION__') REBUILD")
    [status] = hive_bitmap.show(spark, by_day)
    assert (status.fresh, status.unindexed) == (2, 3)
    require_right_answers(spark, by_day)
    run(spark, "ALTER INDEX idx ON by_day REBUILD")
    [status] = hive_bitmap.show(spark, by_day)
    assert (status.fresh, status.unindexed) == (5, 0)
    require_right_answers(spark, by_day)
    with pytest.raises(NotFound, match=r"no partition \(day=9\) in table"):
        run(spark, "ALTER INDEX idx ON by_day PARTITION (day=9) REBUILD")
    run(spark, f"DROP INDEX idx ON {database}.by_day")
    assert listed(spark, f"SHOW INDEXES ON by_day FROM {database}", "idx_name") == []
    assert [name for name in files_of(spark, database) if not name.startswith("by_day/")] == []


@pytest.mark.contract
def test_every_clause_of_hive_does_what_it_says(spark: SparkSession, database: str, sales: str, tmp_path: Path) -> None:
    run(
        spark,
        f"CREATE INDEX i ON TABLE {database}.sales (k) AS 'BITMAP' IDXPROPERTIES ('encoding'='roaring', "
        f"'compression'='snappy', 'enabled'='false') IN TABLE elsewhere STORED AS PARQUET LOCATION '{tmp_path}/i' "
        "TBLPROPERTIES ('owner of it'='o''ps') COMMENT 'c'",
    )
    [status] = hive_bitmap.show(spark, sales)
    found = status.definition
    assert (found.encoding, found.compression, found.enabled) == ("roaring", "snappy", False)
    assert (found.index_table, found.comment, status.fresh) == ("elsewhere", "c", 1)
    assert found.root == f"file:{tmp_path}/i"
    assert metastore.describe(spark, "elsewhere").properties["owner of it"] == "o'ps"
    assert spark.table("elsewhere").columns == ["k", "_bucketname", "_offset", "_bitmaps", "hive_bitmap_segment"]
    run(spark, "ALTER INDEX i ON sales SET IDXPROPERTIES ('enabled'='true', 'encoding'='plain', 'comment'='d')")
    append(spark, sales)
    run(spark, "ALTER INDEX i ON sales REBUILD")
    [status] = hive_bitmap.show(spark, sales)
    found = status.definition
    assert (found.encoding, found.enabled, found.comment, status.fresh) == ("plain", True, "d", 2)
    require_right_answers(spark, sales)


def test_the_life_of_an_index_in_the_words_of_openlookeng(spark: SparkSession, database: str, sales: str) -> None:
    run(spark, f"CREATE INDEX I USING bitmap ON hive.{database}.sales (k) WITH (encoding = ewah, level = 'stripe')")
    [row] = hive_bitmap.sql(spark, "SHOW INDEX").collect()
    [status] = hive_bitmap.show(spark, sales)
    told = row.asDict()
    owner = spark.sql(f"DESCRIBE TABLE EXTENDED {database}__sales_i__").where("col_name = 'Owner'").collect()[0][1]
    assert list(told) == [
        "Index Name",
        "User",
        "Table Name",
        "Index Columns",
        "Index Type",
        "Index Size",
        "Index Status",
        "Partitions",
        "Index Properties",
        "Memory Usage (Coordinator Only)",
        "Disk Usage (Coordinator Only)",
    ]
    assert told | {"Index Size": ""} == {
        "Index Name": "i",
        "User": owner,
        "Table Name": f"spark_catalog.{database}.sales",
        "Index Columns": "k",
        "Index Type": "BITMAP",
        "Index Size": "",
        "Index Status": "OK",
        "Partitions": "all",
        "Index Properties": "encoding=ewah,compression=zstd,enabled=true,level=stripe",
        "Memory Usage (Coordinator Only)": "0 B",
        "Disk Usage (Coordinator Only)": "0 B",
    }
    assert status.index_bytes > 0 and told["Index Size"].split()[1] in ("B", "kB")
    append(spark, sales)
    assert listed(spark, "SHOW INDEX i", *STATE) == [("i", "Out-of-sync", "all")]
    require_right_answers(spark, sales)
    run(spark, "UPDATE INDEX i")
    assert listed(spark, "SHOW INDEX i", *STATE) == [("i", "OK", "all")]
    run(spark, "ALTER INDEX i RENAME TO j")
    assert listed(spark, "SHOW INDEX", *STATE) == [("j", "OK", "all")]
    assert listed(spark, "SHOW INDEX i", *STATE) == []
    require_right_answers(spark, sales)
    run(spark, "DROP INDEX j", "DROP INDEX IF EXISTS j")
    assert listed(spark, "SHOW INDEX", *STATE) == []
    assert [name for name in files_of(spark, database) if not name.startswith("sales/")] == []


@pytest.mark.contract
def test_an_index_grows_and_shrinks_by_partitions(spark: SparkSession, by_day: str) -> None:
    create = "CREATE INDEX i USING bitmap ON by_day (k) WHERE "
    run(spark, create + "day = 1")
    assert listed(spark, "SHOW INDEX", *STATE) == [("i", "OK", "day=1")]
    for where in ["day IN (1, 2)", "day < 3", "day <> 4"]:
        with pytest.raises(AlreadyExists, match="index i already covers some of these partitions"):
            run(spark, create + where)
    with pytest.raises(AlreadyExists, match="index i already covers some of these partitions"):
        run(spark, create.removesuffix(" WHERE "))
    run(spark, create + '"day" BETWEEN 2 AND 3', create.replace("i USING", "IF NOT EXISTS i USING") + "day = 3")
    assert listed(spark, "SHOW INDEX", *STATE) == [("i", "OK", "day=1,day=2,day=3")]
    require_right_answers(spark, by_day, "day = 4 AND k = 'a'", "day IS NULL AND k = 'b'")
    for where, missing in [("day = 4", "day=4"), ("day > 1 OR day IS NULL", "day=4, day=NULL")]:
        with pytest.raises(NotFound) as raised:
            run(spark, f"DROP INDEX i WHERE {where}")
        told, _, partitions = str(raised.value).partition(": ")
        assert told == "index i does not cover partitions"
        assert sorted(partitions.split(", ")) == missing.split(", ")
    run(spark, "DROP INDEX i WHERE day = 2 OR day IN (1)")
    assert listed(spark, "SHOW INDEX", *STATE) == [("i", "OK", "day=3")]
    require_right_answers(spark, by_day, "day = 1 AND k = 'a'")
    append(spark, by_day, "3 AS day")
    assert listed(spark, "SHOW INDEX", *STATE) == [("i", "Out-of-sync", "day=3")]
    run(spark, "UPDATE INDEX i")
    assert listed(spark, "SHOW INDEX", *STATE) == [("i", "OK", "day=3")]
    require_right_answers(spark, by_day)
    run(spark, "DROP INDEX i WHERE day = 3")
    assert listed(spark, "SHOW INDEX", *STATE) == []


def test_a_whole_index_is_not_cut(spark: SparkSession, by_day: str) -> None:
    run(spark, "CREATE INDEX i USING bitmap ON by_day (k)")
    said = "index i covers all partitions: only partitions of an index that was created with WHERE can be dropped"
    with pytest.raises(Unsupported) as raised:
        run(spark, "DROP INDEX i WHERE day = 1")
    assert said in str(raised.value)
    with pytest.raises(AlreadyExists, match="already covers some of these partitions"):
        run(spark, "CREATE INDEX i USING bitmap ON by_day (k) WHERE day = 1")
    assert listed(spark, "SHOW INDEX", *STATE) == [("i", "OK", "all")]


def test_names_in_a_database(spark: SparkSession, database: str, sales: str, by_day: str) -> None:
    run(spark, "CREATE INDEX i USING bitmap ON sales (k)", "CREATE INDEX IF NOT EXISTS i USING bitmap ON by_day (n)")
    assert listed(spark, "SHOW INDEX", "Index Name", "Index Columns") == [("i", "k")]
    for text, said in [
        ("CREATE INDEX i USING bitmap ON sales (k)", "index i already exists"),
        ("CREATE INDEX i USING bitmap ON by_day (k)", "index i already exists"),
        ("CREATE INDEX i USING bitmap ON sales (n)", "index i already exists"),
        ("CREATE INDEX j USING bitmap ON sales (K)", "index i has the same table, columns and type"),
        ("CREATE INDEX i ON TABLE sales (n) AS 'BITMAP'", f"index i already exists on table {database}.sales"),
    ]:
        with pytest.raises(AlreadyExists) as raised:
            run(spark, text)
        assert str(raised.value) == said
    run(spark, "CREATE INDEX IF NOT EXISTS i ON TABLE sales (n) AS 'BITMAP'")
    run(spark, "CREATE INDEX I ON TABLE by_day (n) AS 'BITMAP'")  # Hive's names belong to their tables
    assert listed(spark, "SHOW INDEX i", "Table Name", "Index Columns") == [
        (f"spark_catalog.{database}.by_day", "n"),
        (f"spark_catalog.{database}.sales", "k"),
    ]
    for text in ["UPDATE INDEX i", "DROP INDEX IF EXISTS i", "ALTER INDEX i RENAME TO j"]:
        with pytest.raises(InvalidStatement) as ambiguous:
            run(spark, text)
        assert (
            str(ambiguous.value) == f"index i is on several tables of {database}: by_day, sales; add ON table after i"
        )
    run(spark, "UPDATE INDEX i ON sales", "ALTER INDEX i ON by_day RENAME TO j", "DROP INDEX i")
    assert listed(spark, "SHOW INDEX", "Index Name") == [("j",)]


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("DROP INDEX nope", NotFound, "no index 'nope' in database t_"),
        ("UPDATE INDEX nope", NotFound, "no index 'nope' in database t_"),
        ("ALTER INDEX nope RENAME TO i", NotFound, "no index 'nope' in database t_"),
        ("DROP INDEX nope ON sales", NotFound, "no index 'nope' in table"),
        ("ALTER INDEX nope ON sales REBUILD", NotFound, "no index 'nope' in table"),
        ("ALTER INDEX nope ON sales SET IDXPROPERTIES ('encoding'='gap')", NotFound, "no index 'nope' in table"),
        ("DROP INDEX nope ON nope", NotFound, "no table 'nope'"),
        ("SHOW INDEX ON nope", NotFound, "no table 'nope'"),
        ("DROP INDEX i ON nope.t", NotFound, "no database 'nope'"),
        (
            "CREATE INDEX i ON TABLE sales (k, nope) AS 'BITMAP'",
            NotFound,
            "no column 'nope' in table t_",
        ),
        ("CREATE INDEX i USING bitmap ON sales (nope)", NotFound, "no column 'nope' in table t_"),
        ("CREATE INDEX i USING bitmap ON nope (k)", NotFound, "no table 'nope'"),
        ("CREATE INDEX i ON TABLE nope (k) AS 'BITMAP'", NotFound, "no table 'nope'"),
        (
            "CREATE INDEX i USING bitmap ON sales (k) WHERE n = 1",
            Unsupported,
            "WHERE tests column 'n', which does not partition table t_",
        ),
        (
            "CREATE INDEX i ON TABLE sales (k) AS 'BITMAP' IN TABLE nope.x",
            NotFound,
            "no database 'nope'; known: ",
        ),
        ("CREATE INDEX i ON TABLE sales (k) AS 'BITMAP' IN TABLE sales", AlreadyExists, "table t_"),
        ("CREATE INDEX i ON TABLE sales (k) AS 'BITMAP' IDXPROPERTIES ('encoding'='rle')", HiveBitmapError, "'rle'"),
        ("SHOW INDEX; SHOW INDEX", InvalidStatement, "line 1, column 13: expected one statement, got 2"),
    ],
)
def test_what_cannot_be_done(
    spark: SparkSession, sales: str, text: str, error: type[HiveBitmapError], said: str
) -> None:
    with pytest.raises(error) as raised:
        run(spark, text)
    assert said in str(raised.value)
    assert listed(spark, "SHOW INDEX", "Index Name") == []


def test_what_is_not_there_may_be_missing(spark: SparkSession, sales: str) -> None:
    run(
        spark,
        "DROP INDEX IF EXISTS nope",
        "DROP INDEX IF EXISTS nope ON sales",
        "UPDATE INDEX IF EXISTS nope",
        "ALTER INDEX IF EXISTS nope RENAME TO i",
        "DROP INDEX IF EXISTS nope WHERE day = 1",
    )
    assert listed(spark, "SHOW INDEX IF EXISTS nope", "Index Name") == []


def test_indexes_go_with_their_table(spark: SparkSession, database: str, sales: str, by_day: str) -> None:
    run(
        spark,
        "CREATE INDEX i USING bitmap ON sales (k)",
        "CREATE INDEX j ON TABLE sales (n) AS 'BITMAP' IN TABLE other",
        "CREATE INDEX stays ON TABLE by_day (n) AS 'BITMAP'",
    )
    spark.range(1).createOrReplaceTempView("sales")
    run(spark, "DROP TABLE sales")  # the view of that name
    assert listed(spark, "SHOW INDEX", "Index Name") == [("i",), ("j",), ("stays",)]
    with pytest.raises(Unsupported) as raised:
        run(spark, f"DROP TABLE {database}__sales_i__")
    assert "is an index table: drop it with DROP INDEX" in str(raised.value)
    run(spark, f"DROP TABLE IF EXISTS hive.{database}.sales PURGE", "DROP TABLE IF EXISTS sales")
    left = sorted(table.name for table in spark.catalog.listTables() if not table.isTemporary)
    assert left == ["by_day", f"{database}__by_day_stays__"]
    assert [name for name in files_of(spark, database) if "sales" in name or "other" in name] == []


def test_indexes_go_with_their_database(spark: SparkSession, database: str, tmp_path: Path) -> None:
    name = f"{database}_more"
    spark.sql(f"CREATE DATABASE {name}")
    spark.sql(f"CREATE TABLE {name}.t (k string) STORED AS PARQUET")
    spark.sql(f"INSERT INTO {name}.t VALUES ('a')")
    run(spark, f"CREATE INDEX i ON TABLE {name}.t (k) AS 'BITMAP' LOCATION '{tmp_path}/i'")
    assert list(tmp_path.rglob("*.parquet")) != []
    run(spark, f"DROP SCHEMA {name} CASCADE", f"DROP DATABASE IF EXISTS {name} CASCADE")
    assert not spark.catalog.databaseExists(name)
    assert list(tmp_path.rglob("*.parquet")) == []


@pytest.mark.parametrize("if_exists", ["IF EXISTS ", ""])
def test_an_index_that_another_session_drops_at_the_same_time(
    spark: SparkSession, sales: str, monkeypatch: pytest.MonkeyPatch, if_exists: str
) -> None:
    run(spark, "CREATE INDEX i USING bitmap ON sales (k)")
    find = catalog.find_even_if_dropped

    def meanwhile(*arguments: Any) -> Any:
        found = find(*arguments)
        monkeypatch.undo()
        hive_bitmap.drop(spark, "sales", "i")
        return found

    monkeypatch.setattr(catalog, "find_even_if_dropped", meanwhile)
    if if_exists:
        assert hive_bitmap.sql(spark, "DROP INDEX IF EXISTS i").collect() == []
    else:
        with pytest.raises(NotFound, match="no index 'i'"):
            hive_bitmap.sql(spark, "DROP INDEX i")


@pytest.mark.parametrize(
    "clause",
    [
        "IDXPROPERTIES ('enabled' = 'maybe')",
        "TBLPROPERTIES ('owner' = 'bob')",
        "TBLPROPERTIES ('EXTERNAL' = 'FALSE')",
        pytest.param("TBLPROPERTIES ('location' = '/x')", marks=pytest.mark.contract),
        "TBLPROPERTIES ('provider' = 'orc')",
    ],
)
def test_what_is_refused_leaves_no_index(spark: SparkSession, sales: str, clause: str) -> None:
    with pytest.raises(InvalidProperty):
        hive_bitmap.sql(spark, f"CREATE INDEX i ON TABLE sales (k) AS 'BITMAP' {clause}")
    assert hive_bitmap.show(spark, "sales") == []


def test_a_table_that_was_dropped_elsewhere(spark: SparkSession, sales: str) -> None:
    run(spark, "CREATE INDEX i USING bitmap ON sales (k)")
    spark.sql(f"{OWN_STATEMENT} DROP TABLE sales")  # as where nobody drops its indexes along
    assert listed(spark, "SHOW INDEX", *STATE) == [("i", "Table Deleted", "all")]
    with pytest.raises(NotFound) as raised:
        run(spark, "UPDATE INDEX i")
    assert re.fullmatch(r"table (\S+\.sales) of index i no longer exists: run DROP INDEX i ON \1", str(raised.value))
    with pytest.raises(NotFound, match="no index 'nope' in table sales; known: i"):
        run(spark, "DROP INDEX nope ON sales")
    run(spark, "DROP INDEX i ON sales", "DROP TABLE IF EXISTS sales")
    assert listed(spark, "SHOW INDEX", *STATE) == []
    run(spark, "DROP INDEX IF EXISTS i ON sales", "DROP INDEX IF EXISTS i ON no_database.sales")
    with pytest.raises(NotFound, match="no table 'sales'"):
        run(spark, "DROP INDEX i ON sales")
    assert not hive_bitmap.drop(spark, "sales", "i", if_exists=True)


@pytest.mark.parametrize(
    ("make", "name", "kind"),
    [
        pytest.param("VIEW", "seen", "view", marks=pytest.mark.contract),
        ("TEMPORARY VIEW", "seen", "temporary view"),
        ("GLOBAL TEMPORARY VIEW", "global_temp.seen", "temporary view"),
    ],
)
def test_a_view_is_refused_as_one(spark: SparkSession, sales: str, make: str, name: str, kind: str) -> None:
    spark.sql(f"CREATE {make} seen AS SELECT * FROM sales")
    try:
        for text in (
            f"CREATE INDEX i ON TABLE {name} (k) AS 'BITMAP'",
            f"CREATE INDEX i ON TABLE {name} (nope) AS 'BITMAP'",
            f"CREATE INDEX i USING bitmap ON {name} (k)",
        ):
            with pytest.raises(Unsupported, match=rf"\.seen is a {kind}: only tables of files are indexed"):
                run(spark, text)
        with pytest.raises(Unsupported, match=f"is a {kind}"):
            hive_bitmap.estimate(spark, name, ["k"])
        assert hive_bitmap.count(spark, name, "k = 'a'") == spark.table(name).where("k = 'a'").count()
    finally:
        spark.sql(f"DROP VIEW {name}")
    with pytest.raises(NotFound, match=r"no (table|global temporary view) 'seen'"):
        hive_bitmap.build(spark, name, ["k"])


def test_what_is_probably_meant_is_told(spark: SparkSession, sales: str) -> None:
    run(spark, "CREATE INDEX by_k ON TABLE sales (k) AS 'BITMAP' WITH DEFERRED REBUILD")
    for text, meant in {
        "CREATE INDEX i ON TABLE salles (k) AS 'BITMAP'": "sales",
        "DROP INDEX by_kk ON sales": "by_k",
        "UPDATE INDEX byk": "by_k",
        "ALTER INDEX by_k ON sales SET IDXPROPERTIES ('compresion'='gzip')": "compression",
        "ALTER INDEX by_k ON sales SET IDXPROPERTIES ('compression'='gzipp')": "gzip",
    }.items():
        with pytest.raises(HiveBitmapError, match=rf"; did you mean '{meant}'\?$"):
            run(spark, text)


@pytest.mark.contract
def test_other_statements_are_sparks(spark: SparkSession, sales: str) -> None:
    from pyspark.errors import PySparkException

    assert hive_bitmap.sql(spark, "SELECT :a + 1 AS b", {"a": 1}).collect() == [(2,)]
    assert hive_bitmap.sql(spark, "SELECT ? AS b", ["x"]).collect() == [("x",)]
    assert hive_bitmap.sql(spark, "SELECT count(*) FROM sales").collect() == [(100,)]
    with pytest.raises(Unsupported, match="takes no parameters"):
        hive_bitmap.sql(spark, "SHOW INDEX ON sales", {"a": 1})
    for text in [
        "SELEC 1",
        "UPDATE index SET k = 'a'",
        "DROP TABLE nope",
        "DROP TABLE nope.t",
        "DROP DATABASE nope CASCADE",
        "CREATE INDEX i ON nope.db.sales (k)",
        "DROP INDEX i ON nope.db.sales",
    ]:
        with pytest.raises(PySparkException):
            hive_bitmap.sql(spark, text)


def test_statements_about_another_catalog_are_sparks(spark: SparkSession, sales: str) -> None:
    from pyspark.errors import PySparkException

    run(spark, "CREATE INDEX i USING bitmap ON sales (k)")
    settings = {
        "spark.sql.catalog.hive": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        "spark.sql.catalog.hive.url": "jdbc:derby:memory:other;create=true",
        "spark.sql.catalog.hive.driver": "org.apache.derby.jdbc.EmbeddedDriver",
    }
    database = spark.catalog.currentDatabase()
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        for text in [f"DROP INDEX i ON hive.{database}.sales", f"DROP TABLE hive.{database}.sales"]:
            with pytest.raises(PySparkException):
                hive_bitmap.sql(spark, text)
        spark.catalog.setCurrentCatalog("hive")
        with pytest.raises(PySparkException):
            hive_bitmap.sql(spark, "DROP TABLE sales")
    finally:
        spark.catalog.setCurrentCatalog("spark_catalog")
        spark.catalog.setCurrentDatabase(database)
        for key in settings:
            spark.conf.unset(key)
    assert listed(spark, "SHOW INDEX", *STATE) == [("i", "OK", "all")]
