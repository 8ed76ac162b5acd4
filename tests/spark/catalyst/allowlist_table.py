"""A table with a column of each type of an index's keys, and what the allowlist of `Allowlist.java` names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import hive_bitmap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JAVA = Path(__file__).parents[3] / "jvm" / "hive_bitmap" / "catalyst" / "spark" / "Allowlist.java"
COLUMNS = ("i", "l", "s", "m", "dt", "ts", "n", "b", "bin", "d", "f", "c")
EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
TEXTS = (
    "'Spark SQL'", "'a,b,c'", "'10'", "'-4'", "'2024-03-31'", "''", "' x '", "'Ünï'", "'{\"a\": 1}'", "'[1, 2]'",
    "'abc'", "'ABC'", "'a'", "'79927398713'", "'2024-02-29 23:59:59'", "'a%b_'", "NULL",
)  # fmt: skip
_ROWS = """
SELECT /*+ REPARTITION(2) */
  CAST(if(id % 15 = 0, NULL, id % 15 - 3) AS INT) AS i,
  CAST(if(id % 11 = 0, NULL, (id % 11 - 4) * 100001) AS BIGINT) AS l,
  element_at(array({texts}), CAST(id % {count} AS INT) + 1) AS s,
  CAST(if(id % 13 = 0, NULL, (id % 13 - 5) * 1.25) AS DECIMAL(10,2)) AS m,
  date_add(DATE '2023-12-25', CAST(id % 12 AS INT) * 17) AS dt,
  timestamp_micros(1710000000000000 + (id % 9) * 123456789012) AS ts,
  CAST(timestamp_micros(1700000000000000 + (id % 7) * 98765432101) AS TIMESTAMP_NTZ) AS n,
  if(id % 3 = 0, NULL, id % 3 = 1) AS b,
  CAST(concat('x', id % 5) AS BINARY) AS bin,
  element_at(array(-0.0D, 0.0D, 1.5D, double('NaN'), -2.0D, double('-Infinity'), NULL), CAST(id % 7 AS INT) + 1) AS d,
  element_at(array(-0.0F, 0.0F, 1.5F, float('NaN'), NULL), CAST(id % 5 AS INT) + 1) AS f,
  id % 4 AS k,
  concat('c', id % 3) AS c
FROM range({rows})
"""


def make(spark: SparkSession, name: str, texts: Sequence[str] = ()) -> None:
    """Create the table with an index of each column; `texts` are more values of `s`, as SQL literals."""
    texts = (*TEXTS, *texts)
    rows = _ROWS.format(texts=", ".join(texts), count=len(texts), rows=max(420, 2 * len(texts)))
    spark.sql(
        f"CREATE TABLE {name} (i INT, l BIGINT, s STRING, m DECIMAL(10,2), dt DATE, ts TIMESTAMP, n TIMESTAMP_NTZ, "
        "b BOOLEAN, bin BINARY, d DOUBLE, f FLOAT, k BIGINT, c CHAR(4)) USING parquet"
    )
    spark.sql(f"INSERT INTO {name} {rows}")
    hive_bitmap.build(spark, name, list(COLUMNS))


def listed(constant: str) -> set[str]:
    """The names in a constant of the allowlist."""
    found = re.search(rf'{constant} = names\("""(.*?)"""\);', JAVA.read_text(), re.S)
    assert found is not None
    return set(found[1].split())


def names_in(query: DataFrame) -> set[str]:
    """The classes and calls in the expressions of a query as the optimizer rule sees it, named as in the allowlist."""
    found: set[str] = set()
    nodes = [cast("Any", query)._jdf.queryExecution().optimizedPlan()]
    while nodes:
        node = nodes.pop()
        nodes += _items(node.children())
        expressions = _items(node.expressions())
        while expressions:
            expression = expressions.pop()
            found.add(_name(expression))
            expressions += _items(expression.children())
    return found


def _name(expression: Any) -> str:
    name = str(expression.getClass().getName())
    if name.endswith(".StaticInvoke"):
        return f"{expression.staticObject().getName().rpartition('.')[2]}.{expression.functionName()}"
    return name.removeprefix(EXPRESSIONS)


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(number) for number in range(sequence.size())]
