"""SELECT in plain Spark: what is around the rows. Names, parameters, switches, explanations, writes, leftovers.

The oracle is Spark with the rule off; the rows of all kinds of queries are those of test_select_corpus.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from tests.asking import OFF, by_index, by_spark, indexed, require_alike, require_alike_always, unchecked, under, used

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

N = "narrowed"


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


def check(spark: SparkSession, text: str, *tables: str, args: Any = None, strategy: str = "rows") -> None:
    """The rows and schema are Spark's, and these tables' scans are narrowed."""
    assert used(spark, text, strategy, args) == [(table, N) for table in sorted(tables)]
    require_alike(spark, text, strategy, args=args)


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        pytest.param("SELECT id FROM shop.sales WHERE store = 3", ["sales"], marks=pytest.mark.contract),
        ("SELECT id FROM spark_catalog.shop.sales WHERE store = 3", ["sales"]),
        ("SELECT sales.id FROM shop.sales WHERE sales.store = 3", ["sales"]),
        ("SELECT shop.sales.id FROM shop.sales WHERE store = 3", ["sales"]),
        ("SELECT id FROM `SHOP`.`Sales` WHERE `STORE` = 3", ["sales"]),
        pytest.param(
            "SELECT id FROM sales WHERE code = '1'", ["sales"], marks=pytest.mark.contract
        ),  # CHAR(3) is padded
        ("SELECT id FROM sales WHERE code = '1  ' AND code LIKE '1 %'", ["sales"]),
        ("SELECT id, '{store}', \"a{b\" FROM sales WHERE store = 3", ["sales"]),
        ("SELECT name FROM plain WHERE store = 3", []),
        ("SELECT id FROM sales WHERE amount > 7", []),
        ("SELECT a.id FROM sales a JOIN sales b ON a.id = b.id AND b.channel = 'c1' WHERE a.store = 3", ["sales"] * 2),
        ("SELECT name FROM stores WHERE name = 'nowhere'", ["stores"]),
        ("SELECT id FROM sales WHERE store = 3 AND rand() >= 0", ["sales"]),
        ("SELECT id FROM sales WHERE CASE WHEN id > 0 THEN store ELSE store END = 3", ["sales"]),  # which is no CASE
        pytest.param(
            "SELECT id FROM sales WHERE CASE WHEN id > 9 THEN store ELSE 3 END = 3", [], marks=pytest.mark.contract
        ),
    ],
)
def test_names_and_what_cannot_be_narrowed(shop: SparkSession, text: str, tables: list[str]) -> None:
    check(shop, text, *tables)
    require_alike_always(shop, text)


@pytest.mark.contract
def test_the_file_of_a_row_is_its_own(shop: SparkSession) -> None:
    """Names of files come from Spark's own reader alone."""
    for shown in ("input_file_name()", "input_file_block_start()", "_metadata.file_path", "_metadata.row_index"):
        require_alike_always(shop, f"SELECT id, {shown} AS f FROM sales WHERE store = 3")
        require_alike_always(shop, f"SELECT count(*) FROM sales WHERE store = 3 AND {shown} IS NOT NULL")


@pytest.mark.parametrize(
    ("text", "args", "action"),
    [
        ("SELECT id FROM sales WHERE store = :s AND channel = :c", {"s": 3, "c": "c1"}, N),
        ("SELECT id, ? AS x FROM sales WHERE store = ? AND channel = ?", ["y", 3, "c1"], N),
        ("SELECT id FROM sales WHERE store IN (:s, 4) AND amount > :a", {"s": -1, "a": 7.5}, N),
        ("SELECT count(*) AS n FROM sales WHERE store = :s", {"s": 3}, "answered"),
        ("SELECT count(*) AS n FROM sales WHERE store = ? UNION ALL SELECT ? FROM plain WHERE name = ?",
         [3, 4, "s1"], "answered"),
    ],
)  # fmt: skip
def test_parameters(shop: SparkSession, text: str, args: Any, action: str) -> None:
    assert used(shop, text, "index only" if action == "answered" else "rows", args) == [("sales", action)]
    require_alike_always(shop, text, args)


@pytest.mark.contract
def test_a_cached_table_is_read_from_the_cache(shop: SparkSession) -> None:
    shop.catalog.cacheTable("sales")
    try:
        check(shop, "SELECT id FROM sales WHERE store = 3")
        check(shop, "SELECT count(*) AS n FROM sales WHERE store = 3", strategy="index only")
    finally:
        shop.catalog.uncacheTable("sales")


@pytest.mark.contract
def test_what_was_planned_stays_right_when_the_table_changes(shop: SparkSession) -> None:
    """The index does not know the new file, so it is read whole."""
    shop.sql("CREATE TABLE changing USING parquet AS SELECT * FROM sales")
    hive_bitmap.build(shop, "changing", ["store"])
    with indexed(shop, "rows"):
        before = shop.sql("SELECT * FROM changing WHERE store = 3")
        assert before.count() == 300
        shop.sql("INSERT INTO changing SELECT * FROM changing WHERE store = 3")
        assert shop.sql("SELECT * FROM changing WHERE store = 3").count() == 600
        assert shop.table("changing").count() == 3300
    check(shop, "SELECT * FROM changing WHERE store = 3", "changing")


def test_the_dimension_side_first(shop: SparkSession) -> None:
    """The keys of the small side narrow the large one, and what comes to the small side later is not lost."""
    shop.sql("CREATE TABLE shops USING parquet AS SELECT store, concat('it''s ', store) AS name FROM plain")
    joined = "SELECT s.id, t.name FROM sales s JOIN shops t ON s.store = t.store WHERE t.name = "
    with indexed(shop, "rows"):
        [sales] = [one for one in hive_bitmap.explain(joined + "'nothing'").relations if one.table == "shop.sales"]
        assert (sales.action, sales.blocks_selected) == (N, 0)
        before = shop.sql(joined + '"it\'s 3"')
        shop.sql("INSERT INTO shops SELECT 4, 'it''s 3'")
        late = before.count()
    assert late in (300, 600)  # as of when it was planned, or as of now: never in between
    check(shop, joined + '"it\'s 3"', "sales")
    assert len(by_index(shop, joined + '"it\'s 3"', "rows").rows) == 600


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "SELECT s.id FROM sales s JOIN plain t ON s.store = t.store WHERE t.name = 's3'", marks=pytest.mark.contract
        ),
        "SELECT s.id FROM sales s JOIN plain t USING (store) WHERE t.name = 's3'",
        "SELECT s.id FROM sales s, plain t WHERE s.store = t.store AND t.name IN ('s3', 's4')",
        pytest.param(
            "SELECT id FROM sales WHERE store IN (SELECT store FROM plain WHERE name = 's3')",
            marks=pytest.mark.contract,
        ),
        "SELECT id FROM sales s WHERE EXISTS (SELECT 1 FROM plain t WHERE t.store = s.store AND t.name = 's3')",
        "SELECT s.id FROM sales s LEFT SEMI JOIN plain t ON s.store = t.store AND t.name = 's3'",
        "SELECT s.id FROM sales s JOIN (SELECT p.store FROM plain p JOIN plain q USING (store) WHERE q.name = 's3') t "
        "ON s.store = t.store",
        "WITH w AS (SELECT store FROM plain WHERE name = 's3') SELECT s.id FROM w JOIN sales s ON w.store = s.store",
        "SELECT s.id FROM plain t LEFT JOIN sales s ON s.store = t.store WHERE t.name = 's3'",
    ],
)
def test_keys_of_a_small_side_narrow_the_large_one(shop: SparkSession, text: str) -> None:
    assert ("sales", N) in used(shop, text, "rows")
    require_alike_always(shop, text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "SELECT s.id FROM sales s LEFT JOIN plain t ON s.store = t.store AND t.name = 's3'",
            marks=pytest.mark.contract,
        ),
        "SELECT s.id FROM sales s LEFT ANTI JOIN plain t ON s.store = t.store AND t.name = 's3'",
        "SELECT s.id, t.name FROM sales s FULL JOIN plain t ON s.store = t.store AND t.name = 's3'",
        pytest.param(
            "SELECT s.id FROM sales s WHERE s.store NOT IN (SELECT store FROM plain WHERE name = 's3')",
            marks=pytest.mark.contract,
        ),
        "SELECT s.id FROM sales s JOIN plain t ON s.store <=> t.store WHERE t.name = 's3'",
        "SELECT s.id FROM sales s JOIN plain t ON s.store = CAST(t.store AS DOUBLE) WHERE t.name = 's3'",
        "SELECT s.id, EXISTS (SELECT 1 FROM plain t WHERE t.store = s.store AND t.name = 's3') AS e FROM sales s",
        "SELECT s.id FROM sales s WHERE s.id < 9 OR s.store IN (SELECT store FROM plain WHERE name = 's3')",
    ],
)
def test_rows_that_no_key_joins_are_kept_where_they_count(shop: SparkSession, text: str) -> None:
    require_alike_always(shop, text)


@pytest.mark.contract
def test_a_table_that_is_not_small_is_not_read_first(shop: SparkSession) -> None:
    shop.range(20_000).selectExpr("CAST(id AS INT) AS store", "id % 2 AS odd").write.saveAsTable("large")
    for text, tables in (("t.odd = 1 AND t.store < 4", ["sales"]), ("t.odd < 2 AND t.store >= 0", [])):
        query = f"SELECT s.id FROM sales s JOIN large t ON s.store = t.store WHERE {text}"
        found = [one for one in used(shop, query, "rows") if one[0] == "sales"]
        assert found == [(table, N) for table in tables] or "store >=" in text  # Spark infers s.store >= 0
        require_alike(shop, query, "rows")


def test_key_lists_by_default_where_they_pay(shop: SparkSession) -> None:
    query = "SELECT s.id FROM sales s JOIN plain t ON s.store = t.store WHERE t.name = 's1'"
    check(shop, query, strategy="")  # both tables are small


@pytest.mark.contract
def test_writes_of_queries(shop: SparkSession) -> None:
    with indexed(shop, "rows"):
        shop.sql("CREATE TABLE threes USING parquet AS SELECT id, channel FROM sales WHERE store = 3")
        assert shop.table("threes").count() == 300
        shop.sql("INSERT INTO threes (channel, id) SELECT channel, id FROM sales WHERE store = 4")
        assert shop.table("threes").count() == 600
        shop.sql("INSERT OVERWRITE threes SELECT id, channel FROM sales WHERE store = 5")
        assert shop.table("threes").count() == 300
        shop.table("sales").where("store = 6").select("id", "channel").write.insertInto("threes")
    with under(shop, OFF):
        assert shop.table("threes").count() == 600


def test_a_table_is_overwritten_with_its_own_rows(shop: SparkSession) -> None:
    """Spark refuses to overwrite what it reads from, with the rule or without."""
    from pyspark.errors import AnalysisException

    shop.sql("CREATE TABLE own STORED AS PARQUET AS SELECT id, store FROM sales")
    hive_bitmap.build(shop, "own", ["store"])
    for said in ({"enabled": "false"}, {"strategy": "rows"}, {"strategy": "files"}):
        with indexed(shop, **said), pytest.raises(AnalysisException, match="overwrite"):
            shop.sql("INSERT OVERWRITE own SELECT id, store FROM own WHERE store = 3")
    assert shop.table("own").count() == 3000


def test_nothing_is_left_behind(shop: SparkSession) -> None:
    def views() -> set[str]:
        return {table.name for table in shop.catalog.listTables() if table.isTemporary}

    before = views()
    with indexed(shop, "rows"):
        found = shop.sql("SELECT id FROM sales WHERE store = 3")
        assert found.count() == found.count() == 300
    assert views() == before


@pytest.mark.contract
def test_an_error_is_sparks(shop: SparkSession) -> None:
    from pyspark.errors import AnalysisException

    for answer in (by_spark, by_index):
        with pytest.raises(AnalysisException) as raised:
            answer(shop, "SELECT nonsense FROM sales WHERE store = 3")
        assert "hive_bitmap" not in str(raised.value)


@pytest.mark.contract
def test_switches(shop: SparkSession) -> None:
    text, count = "SELECT id FROM sales WHERE store = 3", "SELECT count(*) FROM sales WHERE store = 3"
    with indexed(shop, "rows"):
        assert {one.reason for one in hive_bitmap.explain(shop.sql(text)).relations} != {"off"}
        shop.sql("SET hive_bitmap.enabled=false")
        [one] = hive_bitmap.explain(shop.sql(text)).relations
        assert (one.action, one.reason) == ("left alone", "off")
    with indexed(shop, "rows", engine_reads_only="true"):
        for query in (text, count):
            [one] = hive_bitmap.explain(shop.sql(query)).relations
            assert one.action != "answered" and one.strategy != "rows"
    check(shop, text, "sales")


def plan(spark: SparkSession, text: str) -> str:
    """What EXPLAIN prints."""
    return str(spark.sql(f"EXPLAIN EXTENDED {text}").first()[0]).lower()


def test_a_setting_that_is_not_understood(shop: SparkSession) -> None:
    """SET refuses it; set before there was a check, it is an error if strict, and else the query is Spark's own."""
    text, wrong = "SELECT id FROM sales WHERE store = 3", {"spark.hive_bitmap.strategy": "perhaps"}
    with indexed(shop), unchecked(shop, wrong):
        shop.conf.unset("hive_bitmap.strategy")
        with pytest.raises(Exception, match=r"strategy is .perhaps."):
            shop.sql(text).collect()
    with indexed(shop, strict="false"), unchecked(shop, wrong):
        shop.conf.unset("hive_bitmap.strategy")
        assert shop.sql(text).count() == 300
        [one] = hive_bitmap.explain(shop.sql(text)).relations
        assert (one.action, one.reason) == ("left alone", "error")
        assert "perhaps" in one.detail


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
def test_settings_under_which_queries_mean_something_else(shop: SparkSession, setting: str, text: str) -> None:
    """`x` and `X` are two tables, a quoted name is several columns, HAVING asks of rows, an inner WITH is idle."""
    with under(shop, {setting: "LEGACY" if setting.endswith("Policy") else "true"}):
        assert used(shop, text, "rows") or setting == "spark.sql.caseSensitive"  # under which no index is trusted
        require_alike_always(shop, text)


@pytest.mark.contract
def test_the_engine_alone_may_skip_files_and_blocks(shop: SparkSession) -> None:
    shop.sql("CREATE TABLE parts (id BIGINT, part BIGINT) USING parquet")
    for part in range(4):
        shop.sql(f"INSERT INTO parts SELECT id, {part} FROM range(0, 1000, 1, 1)")
    hive_bitmap.build(shop, "parts", ["part"])
    for strategy in ("files", "blocks"):
        with indexed(shop, strategy, engine_reads_only="true"):
            [one] = hive_bitmap.explain("SELECT id FROM parts WHERE part = 2").relations
            assert (one.action, one.strategy, one.files_selected, one.files_total) == (N, strategy, 1, 4)
            assert "mapinarrow" not in plan(shop, "SELECT id FROM parts WHERE part = 2")
        require_alike(shop, "SELECT id FROM parts WHERE part = 2", strategy, engine_reads_only="true")


@pytest.mark.contract
def test_why(shop: SparkSession) -> None:
    """A reason for each relation that is left alone."""
    reasons = {
        "SELECT id FROM plain WHERE store = 3": "no_index",
        "SELECT id FROM sales WHERE store = 3": "too_small",
    }
    for text, reason in reasons.items():
        text = text.replace("SELECT id FROM plain", "SELECT name FROM plain")
        with indexed(shop):
            [one] = hive_bitmap.explain(text).relations
            assert (one.action, one.reason) == ("left alone", reason), text
            [same] = hive_bitmap.explain(shop.sql(text)).relations
            assert (same.action, same.reason) == (one.action, one.reason)
            assert one.table.rpartition(".")[2] in str(hive_bitmap.explain(text))
    untested = {
        "SELECT id FROM sales WHERE amount > 7": "not_tested",
        "SELECT id FROM sales WHERE hash(store, id) = 3": "not_understood",
        "SELECT percentile(store, 0.5) FROM sales": "not_counted",
        "SELECT store, max(amount) FROM sales GROUP BY store": "not_tested",
    }
    for text, reason in untested.items():
        with indexed(shop, "rows"):
            [one] = hive_bitmap.explain(text).relations
        assert (one.action, one.reason) == ("left alone", reason), text
        assert one.detail and ("predicate" in one.detail) == ("WHERE" in text)


@pytest.mark.contract
def test_threads_ask_at_once(shop: SparkSession) -> None:
    texts = [f"SELECT id, channel FROM sales WHERE store = {store}" for store in range(8)]
    wanted, found = [by_spark(shop, text) for text in texts], {}
    with indexed(shop, "rows"):

        def ask(text: str) -> None:
            found[text] = [repr(tuple(row)) for row in shop.sql(text).collect()]

        threads = [threading.Thread(target=ask, args=(text,)) for text in texts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
    for text, answer in zip(texts, wanted, strict=True):
        assert sorted(found[text]) == sorted(answer.rows)


def test_sql_is_plain_sql(shop: SparkSession) -> None:
    """`hive_bitmap.sql` is for index statements where there is no extension; a query is Spark's with the rule on."""
    text = "SELECT channel, count(*) FROM sales WHERE store = 3 GROUP BY channel"
    wanted = by_spark(shop, text)
    with indexed(shop, "index only"):
        found = hive_bitmap.sql(shop, text)
        assert sorted(repr(tuple(row)) for row in found.collect()) == sorted(wanted.rows)
        assert [one.action for one in hive_bitmap.explain(found).relations] == ["answered"]
