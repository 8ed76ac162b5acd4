"""Index statements of plain SQL: Spark's parser asks what they are, and Spark's commands have them done.

`Statements.java` asks, in JSON: `parse` wants the columns of the answer, `run` its rows, `drop` that indexes go along.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hive_bitmap.errors import HiveBitmapError, InvalidStatement
from hive_bitmap.predicates.spark_conditions import require_characters
from hive_bitmap.sql.commands import columns, drop_indexes, is_elsewhere, run
from hive_bitmap.sql.parse import parse
from hive_bitmap.sql.statements import DropDatabase, DropTable, Statement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def answer(spark: SparkSession, wanted: str, text: str) -> str:
    """The answer as JSON: an object, or null where the text is no statement on an index of this catalog."""
    from pyspark.errors import PySparkException

    try:
        return json.dumps(_answer(spark, wanted, text))
    except (HiveBitmapError, PySparkException) as e:
        return json.dumps({"error": str(e)})


def _answer(spark: SparkSession, wanted: str, text: str) -> Any:
    require_characters(text)
    statement = parse(text)
    if statement is None or is_elsewhere(spark, statement):
        return None
    match wanted:
        case "parse":
            return {"columns": columns(statement)}
        case "run":
            return {"rows": _rows(spark, statement)}
        case "drop" if isinstance(statement, DropTable | DropDatabase):
            drop_indexes(spark, statement)
            return {}
    raise InvalidStatement(f"not a statement on indexes: {text}")


def _rows(spark: SparkSession, statement: Statement) -> list[list[str | None]]:
    """The rows of a statement that answers with any."""
    frame = run(spark, statement)
    return [list(row) for row in frame.collect()] if columns(statement) else []
