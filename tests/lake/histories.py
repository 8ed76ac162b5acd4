"""Random histories of a Delta table with indexes, and random questions about a version of it.

A step is a statement of Delta or of an index. What Spark refuses, such as to drop a column that partitions, is no step.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests import asking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "h"
TYPES = {"id": "BIGINT", "k": "INT", "s": "STRING", "d": "DATE", "p": "STRING", "n": "INT"}
VALUES = {
    "id": "id",
    "k": "IF(id % 11 = 0, NULL, CAST({of_id} % 40 AS INT))",
    "s": "IF(id % 13 = 0, NULL, CONCAT('s', {of_id} % 7))",
    "d": "DATE_ADD(DATE '2020-01-01', CAST(id % 30 AS INT))",
    "p": "CONCAT('p', id % 2)",
    "n": "CAST(id % 5 AS INT)",
}
SETTINGS: Sequence[Mapping[str, str]] = (
    {},
    {},
    {"spark.databricks.delta.deletionVectors.useMetadataRowIndex": "false"},
    {"spark.sql.parquet.enableVectorizedReader": "false"},
    {"spark.sql.adaptive.enabled": "false"},
)


ROWS = (
    "SELECT * FROM {source} WHERE {where}",
    "SELECT * FROM {source} WHERE {where}",
    "SELECT {key} FROM {source} WHERE {leaf} AND {where}",
    "SELECT a.id, b.{key} FROM {source} a JOIN {source} b ON a.id = b.id WHERE a.{leaf} AND a.id < 500",
    "SELECT id FROM {source} WHERE id IN (SELECT id FROM {source} WHERE {where}) AND {leaf}",
)
AGGREGATIONS = (
    "SELECT count(*) FROM {source} WHERE {leaf}",
    "SELECT count(*) FROM {source} WHERE {where}",
    "SELECT {key}, count(*) FROM {source} WHERE {where} GROUP BY {key}",
    "SELECT {key}, count(*) FROM {source} GROUP BY {key}",
    "SELECT {key}, count(*), min({key}) FROM {source} WHERE {leaf} GROUP BY {key}",
    "SELECT count(DISTINCT {key}), min({key}), max({key}), count({key}) FROM {source} WHERE {leaf}",
    "SELECT DISTINCT {key} FROM {source} WHERE {where}",
    "SELECT count(*) FROM {source} WHERE id < (SELECT avg(id) FROM {source} WHERE {where})",
    "SELECT 1 FROM {source} WHERE {where} LIMIT 1",
    "SELECT count(*) FROM (SELECT * FROM {source} WHERE {where} LIMIT 7)",
    "SELECT {key}, sum(id), avg(id) FROM {source} WHERE {where} GROUP BY {key}",
)


@dataclass
class History:
    """A table with its life so far; `told` are the statements, to say how a failure came about."""

    spark: SparkSession
    draw: random.Random
    told: list[str] = field(default_factory=list)
    refused: int = 0
    next_id: int = 0

    def begin(self) -> None:
        """Create the table, of any kind, and its indexes."""
        mapping = self.draw.choice(["none", "name", "name", "id"])
        vectors = self.draw.choice(["true", "true", "false"])
        more = self.draw.choice(["", "", ", 'delta.enableRowTracking'='true'", ", 'delta.enableChangeDataFeed'='true'"])
        properties = f"'delta.enableDeletionVectors'='{vectors}', 'delta.columnMapping.mode'='{mapping}'{more}"
        by = self.draw.choice(["", "", "PARTITIONED BY (p)"])
        columns = ", ".join(f"{name} {TYPES[name]}" for name in ("id", "k", "s", "d", "p"))
        self._run(f"CREATE TABLE {TABLE} ({columns}) USING delta {by} TBLPROPERTIES ({properties})")
        self.insert()
        self._run(f"CREATE INDEX ik ON TABLE {TABLE} (k) AS 'BITMAP'")
        self._run(f"CREATE INDEX sd ON TABLE {TABLE} (s, d) AS 'BITMAP'")

    def step(self) -> None:
        """Do something to the table, or to an index."""
        steps: list[tuple[int, Callable[[], None]]] = [
            (4, self.insert),
            (6, self.delete),
            (3, self.update),
            (3, self.merge),
            (2, lambda: self._run(f"OPTIMIZE {TABLE}")),
            (2, self.restore),
            (1, lambda: self._run(f"INSERT OVERWRITE {TABLE} SELECT * FROM {TABLE} WHERE id % 3 <> 0")),
            (3, self.columns),
            (6, lambda: self._run(f"ALTER INDEX {self.draw.choice(['ik', 'sd'])} ON {TABLE} REBUILD")),
            (1, self.make_anew),
        ]
        weights = [weight for weight, _ in steps]
        self.draw.choices([one for _, one in steps], weights)[0]()

    def insert(self) -> None:
        rows, files = self.draw.choice([(3, 1), (500, 1), (4000, 1), (4000, 2)])
        first, self.next_id = self.next_id, self.next_id + rows
        chosen = ", ".join(f"{self._value(name)} AS {name}" for name in self._columns())
        self._run(f"INSERT INTO {TABLE} SELECT {chosen} FROM range({first}, {first + rows}, 1, {files})")

    def delete(self) -> None:
        self._run(f"DELETE FROM {TABLE} WHERE {self.condition(self._columns(), few=True)}")

    def update(self) -> None:
        columns = self._columns()
        changed = self.draw.choice([name for name in columns if name in ("k", "s", "n", "p")] or ["id"])
        value = {"k": "CAST(id % 3 AS INT)", "s": "'s1'", "n": "NULL", "p": "'p1'", "id": "id"}[changed]
        self._run(f"UPDATE {TABLE} SET {changed} = {value} WHERE {self.condition(columns, few=True)}")

    def merge(self) -> None:
        columns = self._columns()
        first = self.draw.randrange(max(self.next_id, 1))
        self.next_id += 20
        chosen = ", ".join(f"{self._value(name)} AS {name}" for name in columns)
        source = f"SELECT {chosen} FROM range({first}, {first + 200}, 10)"
        matched = self.draw.choice(["DELETE", "UPDATE SET *"])
        self._run(
            f"MERGE INTO {TABLE} t USING ({source}) u ON t.id = u.id WHEN MATCHED THEN {matched} "
            "WHEN NOT MATCHED THEN INSERT *"
        )

    def restore(self) -> None:
        self._run(f"RESTORE TABLE {TABLE} TO VERSION AS OF {self.draw.choice(self.versions())}")

    def columns(self) -> None:
        """Add, rename or drop a column, also one of an index, or add one of the name of a dropped one."""
        columns = self._columns()
        lacking = [name for name in TYPES if name not in columns]
        change = self.draw.choice(["add", "rename", "drop"])
        if change == "add" and lacking:
            name = self.draw.choice(lacking)
            self._run(f"ALTER TABLE {TABLE} ADD COLUMN {name} {TYPES[name]}")
        elif change == "rename" and "n" in columns and "k" not in columns:
            self._run(f"ALTER TABLE {TABLE} RENAME COLUMN n TO k")
        elif change == "rename" and "k" in columns and "n" not in columns:
            self._run(f"ALTER TABLE {TABLE} RENAME COLUMN k TO n")
        elif change == "drop":
            self._run(f"ALTER TABLE {TABLE} DROP COLUMN {self.draw.choice(['k', 's', 'd', 'n'])}")

    def make_anew(self) -> None:
        if "k" in self._columns():
            self._run(f"DROP INDEX IF EXISTS ik ON {TABLE}")
            self._run(f"CREATE INDEX IF NOT EXISTS ik ON TABLE {TABLE} (k) AS 'BITMAP'")

    def versions(self) -> list[int]:
        rows = self.spark.sql(f"DESCRIBE HISTORY {TABLE}").select("version").collect()
        return sorted(version for (version,) in rows)

    def questions(self) -> Iterator[tuple[str, Sequence[str]]]:
        """A query for rows and one for an aggregation, of the table or a version of it, and ways to ask them."""
        yield self._question(ROWS), self.draw.choice([("", "blocks"), ("blocks", "files"), ("files", "rows")])
        yield self._question(AGGREGATIONS), ("index only", self.draw.choice(["", "blocks", "files"]))

    def _question(self, kinds: Sequence[str]) -> str:
        version = self.draw.choice([None, None, *self.versions()])
        source = TABLE if version is None else f"{TABLE} VERSION AS OF {version}"
        columns = self.spark.sql(f"SELECT * FROM {source}").columns
        key = self.draw.choice([name for name in columns if name != "id"] or ["id"])
        return self.draw.choice(kinds).format(
            source=source, where=self.condition(columns), leaf=self.leaf(columns), key=key
        )

    def condition(self, columns: Sequence[str], *, few: bool = False) -> str:
        """A condition on some of these columns; with `few` one that some of many rows satisfy."""
        if few:
            every = f"id % {self.draw.choice([3, 7, 37])} = 1"
            return self.draw.choice([every, f"{every} AND {self.leaf(columns)}"])
        leaves = [self.leaf(columns) for _ in range(self.draw.choice([1, 1, 2, 3]))]
        text = leaves[0]
        for leaf in leaves[1:]:
            text = f"({text} {self.draw.choice(['AND', 'OR', 'AND NOT'])} {leaf})"
        return text

    def leaf(self, columns: Sequence[str]) -> str:
        name = self.draw.choice([*columns, *(name for name in columns if name in ("k", "s"))])
        number = self.draw.randrange(42)
        if self.draw.random() < 0.15:
            return f"{name} IS NULL"
        match name:
            case "k" | "n":
                return self.draw.choice(
                    [
                        f"{name} = {number}",
                        f"{name} IN (1, {number}, 77)",
                        f"{name} < {number // 4}",
                        f"{name} <> {number}",
                    ]
                )
            case "s":
                return self.draw.choice([f"{name} = 's{number % 8}'", f"{name} LIKE '%{number % 7}'", f"{name} > 's5'"])
            case "d":
                return f"{name} = DATE '2020-01-{number % 30 + 1:02}'"
            case "p":
                return f"{name} = 'p{number % 3}'"
        return f"{name} BETWEEN {number * 100} AND {number * 100 + 400}"

    def _columns(self) -> list[str]:
        return list(self.spark.table(TABLE).columns)

    def _value(self, name: str) -> str:
        """A value of a column, in all blocks of a file or in a few that lie together."""
        return VALUES[name].format(of_id=self.draw.choice(["id", "(id * 3)", "(id DIV 50)", "(id DIV 300)"]))

    def _run(self, statement: str) -> None:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        try:
            with asking.indexed(self.spark):
                self.spark.sql(statement)
            self.told.append(statement)
        except (PySparkException, Py4JJavaError) as e:
            self.refused += 1
            self.told.append(f"-- refused: {statement}: {str(e).partition(chr(10))[0][:150]}")
