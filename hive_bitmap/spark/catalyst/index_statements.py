"""Answer requests on index statements in plain `spark.sql`.

Spark's parser and commands (`Statements.java`) send requests. A request has a kind and a text; the answer is JSON. The
text of the first three kinds is a statement:

* `parse`: return the columns of the statement's result, and their types.
* `run`: execute the statement, and return its rows.
* `doomed`: return the indexes that a DROP TABLE or DROP DATABASE will drop. If the tables must not be dropped, return
  the error as `refused`; after any other error, Spark drops the tables.
* `drop`: drop the indexes in the answer to `doomed`, after Spark has dropped the tables. The text is this answer.
* `renamed`: move the indexes of a table that Spark has renamed. The text has the old and the new name of the table,
  each as a list of parts.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from hive_bitmap.core.grammar.parse import parse
from hive_bitmap.core.grammar.statements import DropDatabase, DropTable, Statement
from hive_bitmap.core.index.definition import from_properties, to_properties
from hive_bitmap.core.predicates.tokens import require_characters
from hive_bitmap.core.table_info import in_spark, quote
from hive_bitmap.errors import HiveBitmapError, InvalidStatement
from hive_bitmap.spark.building.publish import IndexToDrop
from hive_bitmap.spark.maintaining.attach import attach_renamed
from hive_bitmap.spark.maintaining.drop import drop_after
from hive_bitmap.spark.metastore import metastore
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.sql.commands import IsIndexTable, columns, indexes_to_drop, is_elsewhere, is_indexable, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def answer(spark: SparkSession, kind: str, text: str) -> str:
    """Return the answer to a request as JSON: an object or null.

    The docstring of the module describes each `kind` and its `text`. The answer is null for a text that is not an index
    statement, and for a statement that concerns a catalog whose tables cannot have indexes. After a failure the answer
    is an object with `error`.
    """
    from pyspark.errors import PySparkException

    try:
        return json.dumps(_answer(spark, kind, text))
    except HiveBitmapError as e:
        return json.dumps(_error(e))
    except PySparkException as e:
        return json.dumps({"error": str(e), "condition": e.getCondition(), "sqlstate": e.getSqlState()})


def _error(error: HiveBitmapError) -> dict[str, str | None]:
    return {"error": str(error), "condition": error.condition, "sqlstate": error.sqlstate}


def _answer(spark: SparkSession, kind: str, text: str) -> Any:
    if kind == "drop":
        drop_after(spark, [index_of(record) for record in json.loads(text)["doomed"]])
        return {}
    if kind == "renamed":
        _attach(spark, *json.loads(text))
        return {}
    require_characters(text)
    statement = parse(text, partial(is_indexable, spark))
    if statement is None or is_elsewhere(spark, statement):
        return None
    match kind:
        case "parse":
            return {
                "columns": [name for name, _ in columns(statement)],
                "types": [type for _, type in columns(statement)],
            }
        case "run":
            return {"rows": _rows(spark, statement)}
        case "doomed" if isinstance(statement, DropTable | DropDatabase):
            return _to_drop(spark, statement)
    raise InvalidStatement(f"not a statement on indexes: {text}")


def _to_drop(spark: SparkSession, statement: DropTable | DropDatabase) -> dict[str, Any]:
    try:
        return {"doomed": [record_of(index) for index in indexes_to_drop(spark, statement)]}
    except IsIndexTable as e:
        return {"refused": _error(e)}


def _attach(spark: SparkSession, former: list[str], now: list[str]) -> None:
    """Attach the indexes of a table that Spark has just renamed.

    The table had the name `former`, and has the name `now`. Each name is a list of its parts.
    """
    database = former[-2] if len(former) > 1 else metastore.split_name(spark, quote(former[-1]))[1]
    old, new = in_spark(database, former[-1]), in_spark(now[-2] if len(now) > 1 else database, now[-1])
    if catalog.find_even_if_dropped(spark, old)[0] is None:
        attach_renamed(spark, new, old)


def record_of(index: IndexToDrop) -> dict[str, Any]:
    """Convert an index to drop to a JSON object.

    The JVM keeps this record until Spark has dropped the table.
    """
    properties, table = to_properties(index.definition), index.definition.index_table
    return {"properties": properties, "table": table, "live": sorted(index.live), "refusal": index.refusal}


def index_of(record: dict[str, Any]) -> IndexToDrop:
    """Convert a record of `record_of` back to an index to drop.

    Raise InvalidStatement if the JVM returns changed properties.
    """
    definition = from_properties(record["properties"])
    if definition is None:
        raise InvalidStatement("the JVM has not returned the record of an index to drop as Python sent it")
    return IndexToDrop(replace(definition, index_table=record["table"]), frozenset(record["live"]), record["refusal"])


def _rows(spark: SparkSession, statement: Statement) -> list[list[str | float | None]]:
    frame = run(spark, statement)
    return [list(row) for row in frame.collect()] if columns(statement) else []
