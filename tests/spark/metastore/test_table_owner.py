"""Whose the tables are that sessions create: those of the user for whom the statement runs, or of whom it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.spark.metastore import metastore
from hive_bitmap.spark.metastore.jvm_metastore import owned_by
from tests.asking import indexed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def owner(spark: SparkSession, table: str) -> str:
    return metastore.describe(spark, table).owner


def test_tables_belong_to_whom_is_named_and_then_to_the_session_again(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE before (a INT) USING parquet")
    with owned_by(spark, "ann"):
        spark.sql("CREATE TABLE hers (a INT) USING parquet")
        with owned_by(spark, "bob"):
            spark.sql("CREATE TABLE his (a INT) USING parquet")
        with owned_by(spark, ""):
            spark.sql("CREATE TABLE hers_too (a INT) USING parquet")
    spark.sql("CREATE TABLE after (a INT) USING parquet")
    assert [owner(spark, name) for name in ("hers", "his", "hers_too")] == ["ann", "bob", "ann"]
    assert owner(spark, "after") == owner(spark, "before") not in ("ann", "bob")


def test_the_name_is_given_back_after_an_error(spark: SparkSession, database: str) -> None:
    with pytest.raises(KeyError), owned_by(spark, "ann"):
        raise KeyError
    spark.sql("CREATE TABLE after (a INT) USING parquet")
    assert owner(spark, "after") != "ann"


@pytest.mark.contract
def test_statements_create_index_tables_for_whom_they_run(spark: SparkSession, database: str) -> None:
    """The threads that run them for one user are used for the next."""
    with indexed(spark, "index only"):
        for number, user in enumerate(["ann", "", "bob"]):
            with owned_by(spark, user):
                spark.sql(f"CREATE TABLE t{number} USING parquet AS SELECT id AS k FROM range(10)")
                spark.sql(f"CREATE INDEX k ON TABLE t{number} (k) AS 'BITMAP'")
            [status] = hive_bitmap.show(spark, f"t{number}")
            assert (status.problem, owner(spark, f"{database}__t{number}_k__")) == ("", owner(spark, f"t{number}"))
    assert [owner(spark, "t0"), owner(spark, "t2")] == ["ann", "bob"]


@pytest.mark.contract
def test_another_encoding_leaves_an_index_to_its_owner(spark: SparkSession, database: str) -> None:
    """The index table is replaced by whoever rebuilds it: a server itself, if the index follows its table."""
    with owned_by(spark, "ann"):
        spark.sql("CREATE TABLE t USING parquet AS SELECT id % 3 AS k FROM range(100)")
        hive_bitmap.build(spark, "t", ["k"])
    hive_bitmap.set_properties(spark, "t", "k", {"encoding": "roaring"})
    hive_bitmap.rebuild(spark, "t")
    [status] = hive_bitmap.show(spark, "t")
    assert (status.definition.encoding, status.problem) == ("roaring", "")
    assert owner(spark, f"{database}__t_k__") == "ann"
