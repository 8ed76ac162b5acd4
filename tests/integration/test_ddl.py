"""The DDL in ddl/ is what a build registers."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import hive_bitmap
from hive_bitmap.index import metastore

DDL = Path(__file__).parents[2] / "ddl" / "index_tables.sql"
KINDS = ["plain", "gap", "ewah", "roaring", "compact"]


def statements(path: Path) -> list[str]:
    "The statements of a script without its comments."
    lines = [line for line in path.read_text().splitlines() if not line.startswith("--")]
    return [text.strip() for text in "\n".join(lines).split(";") if text.strip()]


def columns(spark: SparkSession, table: str) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in spark.table(table).schema.fields]


@pytest.mark.parametrize("kind", KINDS)
def test_script_makes_the_table_that_a_build_registers(
    spark: SparkSession, database: str, kind: str, tmp_path: Path
) -> None:
    columns_of_flights = "carrier string, tailnum string, distance int"
    spark.sql(f"CREATE TABLE flights ({columns_of_flights}) PARTITIONED BY (month int) STORED AS ORC")
    spark.sql("INSERT INTO flights VALUES ('UA', 'N1', 100, 1), (NULL, 'N2', 200, 2)")
    type, encoding = ("COMPACT", "gap") if kind == "compact" else ("BITMAP", kind)
    (report,) = hive_bitmap.build(spark, "flights", ["carrier"], type=type, encoding=encoding)
    (statement,) = [text for text in statements(DDL) if f"_{kind}__" in text]
    spark.sql(statement.replace("${indexes}", str(tmp_path)))
    scripted = f"default__flights_carrier_{kind}__"
    assert columns(spark, scripted) == columns(spark, report.definition.index_table)
    by_hand, built = (metastore.describe(spark, name) for name in (scripted, report.definition.index_table))
    assert (by_hand.provider, by_hand.input_format) == (built.provider, built.input_format)
    assert (by_hand.kind, by_hand.partition_columns) == (built.kind, built.partition_columns)


def test_script_names_every_kind() -> None:
    assert len(statements(DDL)) == len(KINDS)
