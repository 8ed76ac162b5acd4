"""Index statements in plain `spark.sql`, whose parser and commands (`Statements.java`) ask Python in JSON.

`parse` asks for the columns of the result of a statement, `run` has it executed and asks for its rows, and `drop` has
the indexes dropped of what a DROP TABLE or DROP DATABASE is about to drop.
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


def answer(spark: SparkSession, kind: str, text: str) -> str:
    """Return the answer as JSON: an object, or null if the text is no index statement on the session's own catalog."""
    from pyspark.errors import PySparkException

    try:
        return json.dumps(_answer(spark, kind, text))
    except (HiveBitmapError, PySparkException) as e:
        return json.dumps({"error": str(e)})


def _answer(spark: SparkSession, kind: str, text: str) -> Any:
    require_characters(text)
    statement = parse(text)
    if statement is None or is_elsewhere(spark, statement):
        return None
    match kind:
        case "parse":
            return {"columns": columns(statement)}
        case "run":
            return {"rows": _rows(spark, statement)}
        case "drop" if isinstance(statement, DropTable | DropDatabase):
            drop_indexes(spark, statement)
            return {}
    raise InvalidStatement(f"not a statement on indexes: {text}")


def _rows(spark: SparkSession, statement: Statement) -> list[list[str | None]]:
    frame = run(spark, statement)
    return [list(row) for row in frame.collect()] if columns(statement) else []
