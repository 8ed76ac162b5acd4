"""SELECT through `hive_bitmap.sql`: what is around the rows. Names, parameters, switches, EXPLAIN, writes, leftovers.

The oracle is `spark.sql` of the same text; the rows of all kinds of queries are those of test_select_corpus.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.errors import InvalidProperty
from hive_bitmap.query.rewrite import explaining
from hive_bitmap.query.rewrite.rewriting import rewrite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def shop(spark: SparkSession) -> Iterator[SparkSession]:
    """A session with the database `shop`: the indexed tables sales and stores, and plain, which has no index."""
    before = spark.catalog.currentDatabase()
    spark.sql("CREATE DATABASE shop")
    spark.catalog.setCurrentDatabase("shop")
    spark.sql(
        "CREATE TABLE sales USING parquet AS SELECT id, CAST(id % 10 AS INT) AS store, concat('c', id % 3) AS channel, "
        "CAST(id AS DECIMAL(9,2)) AS amount, CAST(id % 4 AS CHAR(3)) AS code FROM range(3000)"
    )
    spark.sql(
        "CREATE TABLE stores USING parquet AS SELECT CAST(id AS INT) AS store, concat('s', id) AS name FROM range(9)"
    )
    spark.sql("CREATE TABLE plain USING parquet AS SELECT * FROM stores")
    hive_bitmap.build(spark, "sales", ["store", "channel", "code"])
    hive_bitmap.build(spark, "stores", ["name"])
    yield spark
    spark.catalog.setCurrentDatabase(before)
    spark.sql("DROP DATABASE shop CASCADE")


@pytest.fixture
def forced(shop: SparkSession) -> Iterator[SparkSession]:
    """The same, its scans narrowed though the tables are small."""
    shop.conf.set("hive_bitmap.strategy", "rows")
    yield shop
    shop.conf.unset("hive_bitmap.strategy")


def check(spark: SparkSession, text: str, args: Any = None, narrowed: int = 1) -> None:
    """The rows and schema are Spark's, with so many scans narrowed."""
    assert len(rewrite(spark, text, args).frames) == narrowed
    wanted, found = spark.sql(text, args=args), hive_bitmap.sql(spark, text, args)
    assert found.schema == wanted.schema
    assert Counter(map(repr, found.collect())) == Counter(map(repr, wanted.collect()))


@pytest.mark.parametrize(
    ("text", "narrowed"),
    [
        ("SELECT id FROM shop.sales WHERE store = 3", 1),
        ("SELECT id FROM spark_catalog.shop.sales WHERE store = 3", 1),
        ("SELECT sales.id FROM shop.sales WHERE sales.store = 3", 1),
        ("SELECT shop.sales.id FROM shop.sales WHERE store = 3", 0),  # the name of a narrowed scan has no database
        ("SELECT id FROM `SHOP`.`Sales` WHERE `STORE` = 3", 1),
        ("SELECT id FROM sales WHERE code = '1'", 1),  # CHAR(3) is padded
        ("SELECT id FROM sales WHERE code = '1  ' AND code LIKE '1 %'", 1),
        ("SELECT id, '{store}', \"a{b\" FROM sales WHERE store = 3", 1),
        ("SELECT name FROM plain WHERE store = 3", 0),
        ("SELECT id FROM sales WHERE amount > 7", 0),
        ("SELECT a.id FROM sales a JOIN sales b ON a.id = b.id AND b.channel = 'c1' WHERE a.store = 3", 2),
        ("SELECT name FROM stores WHERE name = 'nowhere'", 1),
        ("SELECT id FROM sales WHERE store = 3 AND rand() >= 0", 1),
        ("SELECT id FROM sales WHERE store = 3 AND input_file_name() <> ''", 0),
    ],
)
def test_names_and_what_cannot_be_narrowed(forced: SparkSession, text: str, narrowed: int) -> None:
    check(forced, text, narrowed=narrowed)


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("SELECT id FROM sales WHERE store = :s AND channel = :c", {"s": 3, "c": "c1"}),
        ("SELECT id, ? AS x FROM sales WHERE store = ? AND channel = ?", ["y", 3, "c1"]),
        ("SELECT id FROM sales WHERE store IN (:s, 4) AND amount > :a", {"s": -1, "a": 7.5}),
        ("SELECT count(*) AS n FROM sales WHERE store = :s", {"s": 3}),
        ("SELECT count(*) AS n FROM sales WHERE store = ? UNION ALL SELECT ? FROM stores WHERE name = ?", [3, 4, "s1"]),
    ],
)
def test_parameters(forced: SparkSession, text: str, args: Any) -> None:
    assert rewrite(forced, text, args).frames
    wanted, found = forced.sql(text, args=args), hive_bitmap.sql(forced, text, args)
    assert found.schema == wanted.schema
    assert Counter(found.collect()) == Counter(wanted.collect())


def test_a_temporary_view_hides_the_table(forced: SparkSession) -> None:
    forced.sql("SELECT 1 AS id, 3 AS store").createOrReplaceTempView("sales")
    try:
        check(forced, "SELECT id FROM sales WHERE store = 3", narrowed=0)
        check(forced, "SELECT id FROM shop.sales WHERE store = 3")
    finally:
        forced.catalog.dropTempView("sales")


def test_a_cached_table_is_read_from_the_cache(forced: SparkSession) -> None:
    forced.catalog.cacheTable("sales")
    try:
        check(forced, "SELECT id FROM sales WHERE store = 3", narrowed=0)
        check(forced, "SELECT count(*) AS n FROM sales WHERE store = 3", narrowed=0)
    finally:
        forced.catalog.uncacheTable("sales")


def test_what_was_planned_stays_right_when_the_table_changes(forced: SparkSession) -> None:
    """The index does not know the new file, so it is read whole."""
    forced.sql("CREATE TABLE changing USING parquet AS SELECT * FROM sales")
    hive_bitmap.build(forced, "changing", ["store"])
    before = hive_bitmap.sql(forced, "SELECT * FROM changing WHERE store = 3")
    assert before.count() == 300
    hive_bitmap.sql(forced, "INSERT INTO changing SELECT * FROM changing WHERE store = 3")
    check(forced, "SELECT * FROM changing WHERE store = 3")
    assert forced.table("changing").count() == 3300


def test_the_dimension_side_first(forced: SparkSession) -> None:
    """The rows that were read take the table's place, so what comes to it later joins nothing, and nothing is lost."""
    forced.sql("CREATE TABLE shops USING parquet AS SELECT store, concat('it''s ', store) AS name FROM plain")
    joined = "SELECT s.id, t.name FROM sales s JOIN shops t ON s.store = t.store WHERE t.name = "
    quoted = "SELECT s.id FROM sales s JOIN (SELECT 1) x JOIN shops t ON s.channel = t.name WHERE t.store > 1"
    assert rewrite(forced, joined + "'nothing'").choices[0].lists == ("store is one of 0 keys of shops",)
    assert rewrite(forced, quoted).choices[0].lists == ("channel is one of 7 keys of shops",)
    check(forced, quoted, narrowed=2)
    before = hive_bitmap.sql(forced, joined + '"it\'s 3"')
    forced.sql("INSERT INTO shops SELECT 4, 'it''s 3'")
    assert before.count() == 300
    check(forced, joined + '"it\'s 3"', narrowed=2)
    assert hive_bitmap.sql(forced, joined + '"it\'s 3"').count() == 600


def test_a_table_that_is_not_small_is_not_read_first(forced: SparkSession) -> None:
    forced.range(20_000).selectExpr("CAST(id AS INT) AS store", "id % 2 AS odd").write.saveAsTable("large")
    for text, lists in (("t.odd = 1 AND t.store < 4", 1), ("t.odd < 2 AND t.store >= 0", 0)):
        query = f"SELECT s.id FROM sales s JOIN large t ON s.store = t.store WHERE {text}"
        assert len(rewrite(forced, query).choices[0].lists) == lists
        check(forced, query, narrowed=2 * lists)


def test_key_lists_by_default_where_they_pay(shop: SparkSession) -> None:
    query = "SELECT s.id FROM sales s JOIN plain t ON s.store = t.store WHERE t.name = 's1'"
    check(shop, query, narrowed=0)  # both tables are small


def test_writes_of_queries(forced: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "hive_bitmap"):
        hive_bitmap.sql(forced, "CREATE TABLE threes USING parquet AS SELECT id, channel FROM sales WHERE store = 3")
    assert "default" not in caplog.text and "shop.sales where (store = 3): rows" in caplog.text
    assert forced.table("threes").count() == 300
    hive_bitmap.sql(forced, "INSERT INTO threes (channel, id) SELECT channel, id FROM sales WHERE store = 4")
    assert forced.table("threes").count() == 600
    hive_bitmap.sql(forced, "INSERT OVERWRITE threes SELECT id, channel FROM sales WHERE store = 5")
    assert forced.table("threes").count() == 300
    assert rewrite(forced, "INSERT OVERWRITE threes SELECT id, channel FROM sales WHERE store = 5").why_not


def test_nothing_is_left_behind(forced: SparkSession) -> None:
    def views() -> set[str]:
        return {table.name for table in forced.catalog.listTables() if table.isTemporary}

    before = views()
    found = hive_bitmap.sql(forced, "SELECT id FROM sales WHERE store = 3")
    assert views() == before
    assert found.count() == found.count() == 300


def test_an_error_is_told_of_the_text_as_it_was(forced: SparkSession) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException) as raised:
        hive_bitmap.sql(forced, "SELECT nonsense FROM sales WHERE store = 3")
    assert "hive_bitmap" not in str(raised.value) and "_pyspark" not in str(raised.value)


def test_switches(forced: SparkSession) -> None:
    text = "SELECT id FROM sales WHERE store = 3"
    for setting, strategy in (("enabled", "full scan"), ("engine_reads_only", "full scan")):
        value = "false" if setting == "enabled" else "true"
        hive_bitmap.sql(forced, f"SET hive_bitmap.{setting}={value}")
        try:
            check(forced, text, narrowed=0)
            [choice] = rewrite(forced, text, thorough=True).choices
            assert choice.plan.strategy == strategy
            assert f"hive_bitmap.{setting}" in choice.plan.reason
            assert hive_bitmap.count(forced, "sales", "store = 3") == 300
        finally:
            forced.conf.unset(f"hive_bitmap.{setting}")
    check(forced, text)
    forced.conf.set("hive_bitmap.strategy", "perhaps")
    with pytest.raises(InvalidProperty, match=r"strategy is .perhaps."):
        hive_bitmap.sql(forced, text)


@pytest.mark.parametrize(
    ("setting", "text"),
    {
        "spark.sql.caseSensitive": "SELECT x.id FROM sales x JOIN stores X ON x.store = X.store WHERE X.name = 's3'",
        "spark.sql.parser.quotedRegexColumnNames": "SELECT id FROM "
        "(SELECT `(id|store)` FROM sales UNION ALL SELECT id, 1 FROM sales) u WHERE store = 3",
        "spark.sql.legacy.parser.havingWithoutGroupByAsWhere": "SELECT store FROM sales HAVING store > 3 LIMIT 5000",
        "spark.sql.legacy.ctePrecedencePolicy": "WITH c AS (SELECT id, store FROM sales) SELECT * FROM "
        "(WITH c AS (SELECT id, store FROM sales WHERE id < 5) SELECT * FROM c) WHERE store = 3",
    }.items(),
)
def test_settings_under_which_queries_mean_something_else(forced: SparkSession, setting: str, text: str) -> None:
    """`x` and `X` are two tables, a quoted name is several columns, HAVING asks of rows, an inner WITH is idle."""
    value = "LEGACY" if setting.endswith("Policy") else "true"
    forced.conf.set(setting, value)
    try:
        check(forced, text, narrowed=0)
        assert rewrite(forced, "SELECT id FROM sales WHERE store = 3").why_not == f"{setting} is {value}"
    finally:
        forced.conf.unset(setting)


def test_the_engine_alone_may_skip_files(shop: SparkSession) -> None:
    shop.range(4000).selectExpr("id", "id DIV 1000 AS part").repartitionByRange(4, "id").write.saveAsTable("parts")
    hive_bitmap.build(shop, "parts", ["part"])
    shop.conf.set("hive_bitmap.strategy", "files")
    shop.conf.set("hive_bitmap.engine_reads_only", "true")
    try:
        check(shop, "SELECT id FROM parts WHERE part = 2")
    finally:
        shop.conf.unset("hive_bitmap.strategy")
        shop.conf.unset("hive_bitmap.engine_reads_only")


def test_explain(forced: SparkSession) -> None:
    text = "SELECT s.id FROM sales s JOIN stores t ON s.store = t.store WHERE s.channel = 'c1' AND t.store = 4"
    [row] = hive_bitmap.sql(forced, f"EXPLAIN {text}").collect()
    assert "serves channel" in row.plan and "the scan is narrowed" in row.plan
    assert "its 1 wanted rows were read first" in row.plan and "store is one of 1 keys of stores" in row.plan
    assert "== Physical Plan ==" in row.plan and "MapInArrow" in row.plan
    [row] = hive_bitmap.sql(forced, f"explain analyze {text}").collect()
    assert "100 rows read, 100 of them found" in row.plan
    assert f"result: {forced.sql(text).count():,} rows" in row.plan


def test_explain_of_what_has_no_index_is_sparks(shop: SparkSession) -> None:
    text = "EXPLAIN SELECT count(*) FROM range(3)"
    [wanted], [found] = shop.sql(text).collect(), hive_bitmap.sql(shop, text).collect()
    assert found.asDict().keys() == wanted.asDict().keys()
    assert found.plan.splitlines()[0] == wanted.plan.splitlines()[0] == "== Physical Plan =="


def test_explanations_for_programs_and_browsers(forced: SparkSession, tmp_path: Path) -> None:
    found = explaining.explain(forced, "SELECT id FROM sales WHERE store = 3 AND amount < 100", analyze=True)
    told = json.loads(json.dumps(explaining.to_json(found)))
    assert told["rows"] == 10
    [table] = told["tables"]
    assert (table["strategy"], table["narrowed"], table["rows_found"]) == ("rows", True, 10)
    assert table["rows_read"] >= 10
    page = explaining.to_html(found)
    assert page.startswith("<!DOCTYPE html>") and "Block map" in page and "MapInArrow" in page
