"""What decides how files are read, besides the table: options of the query, and Hadoop's settings past the session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from tests.asking import require_alike, told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAYS = ("", "index only", "rows", "blocks", "files")
BY_POSITION = "orc.force.positional.evolution"


@pytest.fixture
def renamed(spark: SparkSession, database: str, tmp_path: object) -> str:
    """An indexed ORC table of files that have other names for its columns: by name, readers see NULL."""
    where = f"LOCATION '{tmp_path}/t'"
    spark.sql(f"CREATE TABLE old (a int, b int) USING orc {where}")
    spark.sql("INSERT INTO old SELECT id % 7, id % 3 FROM range(300)")
    spark.sql(f"CREATE TABLE new (b int, c int) USING orc {where}")
    hive_bitmap.build(spark, "new", ["b"])
    return "new"


@pytest.mark.parametrize("query", ["SELECT count(*) FROM {} WHERE b = 5", "SELECT b, c FROM {} WHERE b = 2"])
def test_options_of_the_query(spark: SparkSession, renamed: str, query: str) -> None:
    require_alike(spark, query.format(renamed), *WAYS)
    with_option = query.format(f"{renamed} WITH ('{BY_POSITION}'='true')")
    require_alike(spark, with_option, *WAYS)
    assert told(spark, query.format(renamed), "blocks") != [("new", "left alone")]
    assert told(spark, with_option, "blocks") == [("new", "left alone")]


@pytest.mark.parametrize("query", ["SELECT count(*) FROM {} WHERE b = 5", "SELECT b, c FROM {} WHERE b = 2"])
def test_settings_of_hadoop(spark: SparkSession, renamed: str, query: str) -> None:
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set(BY_POSITION, "true")
    try:
        require_alike(spark, query.format(renamed), *WAYS)
        assert hive_bitmap.plan(spark, renamed, "b = 5").code == "unsupported"
    finally:
        hadoop.unset(BY_POSITION)
    require_alike(spark, query.format(renamed), *WAYS)
