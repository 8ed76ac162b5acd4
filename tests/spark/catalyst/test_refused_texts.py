"""What Spark refuses to parse is refused with its own error, also where the parser knows index statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

import hive_bitmap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REFUSED = [
    "DECLARE cx CURSOR FOR SELECT 1",
    "lbl: BEGIN SELECT 1; END lbl2",
    "BEGIN SELECT 1; DECLARE x INT; END",
    "BEGIN LEAVE nolabel; END",
    "BEGIN ITERATE nolabel; END",
    "BEGIN DECLARE x INT; DECLARE x INT; SELECT 1; END",
    "BEGIN DECLARE c CONDITION FOR SQLSTATE '45000'; DECLARE c CONDITION FOR SQLSTATE '45001'; SELECT 1; END",
    "BEGIN DECLARE CONTINUE HANDLER FOR SQLSTATE '00000' BEGIN SELECT 1; END; SELECT 1; END",
    "BEGIN SET x = 1; DECLARE x INT; END",
    "a: BEGIN a: BEGIN SELECT 1; END; END",
    "BEGIN DROP TABLE; END",
    "SELECT FROM WHERE",
    "DROP TABLE",
    "DROP TABLE a b c",
    "DROP DATABASE d CASCADE x",
    "CREATE TABLE t (a INT",
    "",
]


def error_of_parser(parser: Any, text: str) -> tuple[str, str] | None:
    """Return the class and the message with which a parser of the JVM refuses a text; None if it does not."""
    try:
        parser.parsePlan(text)
    except Py4JJavaError as e:
        return e.java_exception.getClass().getName(), str(e.java_exception.getMessage())
    except PySparkException as e:
        return type(e).__name__, str(e)
    return None


@pytest.mark.parametrize("text", REFUSED)
def test_with_the_same_error_as_by_spark(spark: SparkSession, text: str) -> None:
    hive_bitmap.enable(spark)
    jvm: Any = spark._jvm
    wanted = error_of_parser(jvm.org.apache.spark.sql.execution.SparkSqlParser(), text)
    parser = spark._jsparkSession.sessionState().sqlParser()
    assert parser.getClass().getName() == "hive_bitmap.catalyst.statements.Statements"
    assert error_of_parser(parser, text) == wanted
    with pytest.raises((PySparkException, Py4JJavaError)) as refused:  # PySpark does not know the errors of scripts
        spark.sql(text)
    assert "UndeclaredThrowable" not in str(refused.value)


def test_all_other_methods_are_those_of_sparks_parser(spark: SparkSession) -> None:
    hive_bitmap.enable(spark)
    jvm: Any = spark._jvm
    ours, sparks = spark._jsparkSession.sessionState().sqlParser(), jvm.org.apache.spark.sql.execution.SparkSqlParser()
    for method, text in (
        ("parseQuery", "TABLE t"),
        ("parseExpression", "a + 1 > 2"),
        ("parseTableIdentifier", "d.t"),
        ("parseFunctionIdentifier", "d.f"),
        ("parseMultipartIdentifier", "c.d.t"),
        ("parseRoutineParam", "a INT, b STRING"),
        ("parseDataType", "array<int>"),
        ("parseTableSchema", "a INT, b STRING"),
        ("parsePlan", "TABLE t"),
    ):
        assert getattr(ours, method)(text).toString() == getattr(sparks, method)(text).toString(), method
