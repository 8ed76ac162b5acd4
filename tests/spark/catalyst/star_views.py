"""Persistent views over the star schema, plain ones and such as could be read wrongly.

`far` was made while another database was the current one, which has another table `sales`; `loose_..` under other
rules than ANSI's, `tokyo` in another time zone; of `codes_before` the table got a column later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import hive_bitmap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ELSEWHERE = "star_elsewhere"
VIEWS = {
    "web_sales": "SELECT * FROM sales WHERE channel = 'web'",
    "few_web_sales": "SELECT * FROM web_sales WHERE store_id > 6",
    "places (sale, place, kind)": "SELECT sale_id, store_id, channel FROM sales -- whose names differ",
    "web_places": "SELECT place, sale AS s FROM places WHERE kind = 'web'",
    "money": "SELECT sale_id, day, store_id, amount AS money FROM sales "
    "UNION ALL SELECT sale_id, day, store_id, refunded FROM refunds",
    "mixed": "SELECT sale_id AS id, store_id, channel AS kind FROM sales UNION SELECT store_id, store_id, city "
    "FROM stores",
    "late": "SELECT sale_id, store_id FROM sales INTERSECT SELECT sale_id, store_id FROM refunds WHERE reason = 'late'",
    "kept": "SELECT sale_id FROM sales WHERE store_id = 2 EXCEPT SELECT sale_id FROM refunds",
    "city_sales": "SELECT s.sale_id, s.channel, t.city, t.state, t.store_id "
    "FROM sales s JOIN stores t ON s.store_id = t.store_id",
    "city_maybe": "SELECT t.city, t.store_id, s.sale_id, s.channel "
    "FROM stores t LEFT JOIN sales s ON s.store_id = t.store_id",
    "last_sales": "SELECT sale_id, store_id, channel FROM sales ORDER BY sale_id DESC LIMIT 100",
    "store_counts": "SELECT store_id, channel, count(*) AS n, max(amount) AS most "
    "FROM sales GROUP BY store_id, channel",
    "ranked": "SELECT sale_id, store_id, row_number() OVER (PARTITION BY store_id ORDER BY sale_id) AS n FROM sales",
    "kinds": "SELECT DISTINCT store_id, channel FROM sales",
    "dice": "SELECT sale_id, store_id, rand() AS r, uuid() AS u FROM sales",
    "seeded": "SELECT sale_id, store_id, rand(5) AS r FROM sales",
    "mine": "SELECT sale_id, store_id, current_user() AS who, current_database() AS db, current_date() AS today "
    "FROM sales",
    "refunded": "SELECT s.sale_id, s.store_id FROM sales s "
    "WHERE EXISTS (SELECT 1 FROM refunds r WHERE r.sale_id = s.sale_id AND r.store_id = s.store_id)",
    "shadowed": "WITH sales AS (SELECT carrier, dest, month FROM flights WHERE carrier = 'HA') SELECT * FROM sales",
    "nulls": "SELECT sale_id, customer_id, CASE WHEN channel IS NULL THEN 'none' ELSE channel END AS channel "
    "FROM sales "
    "WHERE customer_id IS NULL",
    "bracketed": "SELECT s.sale_id, t.city "
    "FROM (sales s JOIN stores t ON s.store_id = t.store_id) WHERE s.store_id = 3",
    "codes_before": "SELECT * FROM codes",
    "coded (c, i)": "SELECT code, id FROM codes",
    "by_scalar": "SELECT sale_id, item_id FROM sales WHERE item_id = (SELECT max(item_id) "
    "FROM items WHERE category = 'Books')",
}  # fmt: skip
LOOSE = {
    "loose_plain": "SELECT sale_id, store_id, channel FROM sales WHERE store_id < 9",
    "loose_number": "SELECT sale_id, store_id, CAST(note AS INT) AS number FROM sales",
    "loose_text": "SELECT sale_id, store_id FROM sales WHERE note <> 3",
}


def make(spark: SparkSession) -> None:
    """Create the views, and tables that they need, in the current database, and the database ELSEWHERE."""
    here = spark.catalog.currentDatabase()
    spark.sql("CREATE TABLE codes (id INT, code CHAR(3), label VARCHAR(9)) USING parquet")
    spark.sql("INSERT INTO codes SELECT id, if(id % 7 = 0, NULL, id % 5), concat('l', id % 3) FROM range(60)")
    hive_bitmap.build(spark, "codes", ["code", "label"])
    spark.sql(f"CREATE DATABASE {ELSEWHERE}")
    spark.catalog.setCurrentDatabase(ELSEWHERE)
    spark.sql(
        "CREATE TABLE sales USING parquet AS SELECT id AS sale_id, CAST(id % 9 AS INT) AS store_id FROM range(90)"
    )
    hive_bitmap.build(spark, "sales", ["store_id"])
    spark.sql(f"CREATE VIEW {here}.far AS SELECT sale_id, store_id FROM sales WHERE store_id <> 4")
    spark.catalog.setCurrentDatabase(here)
    _create(spark, VIEWS)
    _under(spark, "spark.sql.ansi.enabled", "false", LOOSE)
    tokyo = "SELECT sale_id, store_id, CAST(sold_at AS DATE) AS sold FROM sales"
    _under(spark, "spark.sql.session.timeZone", "Asia/Tokyo", {"tokyo": tokyo})
    spark.sql("ALTER TABLE codes ADD COLUMN (extra INT)")
    hive_bitmap.rebuild(spark, "codes")


def _create(spark: SparkSession, views: dict[str, str]) -> None:
    for name, query in views.items():
        spark.sql(f"CREATE VIEW {name} AS {query}")


def _under(spark: SparkSession, setting: str, value: str, views: dict[str, str]) -> None:
    """Create views while a setting has another value."""
    before = str(spark.conf.get(setting))
    spark.conf.set(setting, value)
    try:
        _create(spark, views)
    finally:
        spark.conf.set(setting, before)
