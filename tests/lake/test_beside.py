"""Tables of Parquet files beside Delta and Iceberg tables, in sessions with the real extensions of both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import IllegalArgumentException

from tests import asking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.lake
ROWS = "SELECT id, CAST(id % 500 AS INT) AS k, md5(CAST(id AS STRING)) AS s FROM range(100000)"
QUERIES = {
    "SELECT count(*) FROM {t} WHERE k = 7": "index only",
    "SELECT k, count(*), min(k) FROM {t} WHERE k < 9 GROUP BY k": "index only",
    "SELECT * FROM {t} WHERE k = 7": "rows",
    "SELECT id, s FROM {t} WHERE k IN (7, 8) AND id > 100": "blocks",
    "SELECT s FROM {t} WHERE k = 123456": "files",
}


def test_the_index_of_a_parquet_table_is_used_beside_delta(spark: SparkSession, database: str) -> None:
    _make(spark, f"{database}.t")
    _require_used(spark, f"{database}.t")


def test_the_index_of_a_parquet_table_is_used_beside_iceberg(
    spark: SparkSession, iceberg: SparkSession, database: str
) -> None:
    _make(iceberg, f"{database}.t")
    _require_used(iceberg, f"{database}.t")


def _make(session: SparkSession, table: str) -> None:
    with asking.indexed(session):
        session.sql(f"CREATE TABLE {table} STORED AS PARQUET AS {ROWS}")
        session.sql(f"CREATE INDEX ik ON TABLE {table} (k) AS 'BITMAP'")


def _require_used(session: SparkSession, table: str) -> None:
    session.table(table).count()  # the first query of a session, after which Delta has changed its settings
    for query, strategy in QUERIES.items():
        asked = query.format(t=table)
        asking.require_alike(session, asked, strategy)
        action = "answered" if strategy == "index only" else "narrowed"
        assert asking.used(session, asked, strategy) == [("t", action)], query


def test_an_iceberg_table_is_refused_where_the_catalog_is_not_icebergs(
    spark: SparkSession, iceberg: SparkSession, database: str
) -> None:
    table = f"{database}.t"
    iceberg.sql(f"CREATE TABLE {table} USING iceberg AS {ROWS}")
    with (
        asking.indexed(spark) as session,
        pytest.raises(IllegalArgumentException, match="is iceberg, and its log cannot be read: "),
    ):
        session.sql(f"CREATE INDEX ik ON TABLE {table} (k) AS 'BITMAP'")
    asking.require_alike(iceberg, f"SELECT count(*), max(s) FROM {table} WHERE k = 7")
