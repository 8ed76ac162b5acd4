"""Random histories of a Delta or Iceberg table with indexes, and random questions about a version of it.

A step is a statement of the format or of an index. What Spark refuses, such as to drop a column that partitions, is no
step. What differs between the formats is a `Format`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tests import asking
from tests.lake.test_iceberg import SMALL_BLOCKS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = {"id": "BIGINT", "k": "INT", "s": "STRING", "d": "DATE", "p": "STRING", "n": "INT"}
VALUES = {
    "id": "id",
    "k": "IF(id % 11 = 0, NULL, CAST({of_id} % 40 AS INT))",
    "s": "IF(id % 13 = 0, NULL, CONCAT('s', {of_id} % 7))",
    "d": "DATE_ADD(DATE '2020-01-01', CAST(id % 30 AS INT))",
    "p": "CONCAT('p', id % 2)",
    "n": "CAST(id % 5 AS INT)",
}
EXPRESSIONS = {"k": "k % 7", "s": "substring(s, 1, 2)", "d": "weekday(d)"}
INDEXES = {
    "ik": "k",
    "sd": "s, d",
    "ex": ", ".join(f"{sql} AS of_{name}" for name, sql in EXPRESSIONS.items()),
    "ids": "xxhash64(id) AS hash",
}
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
    "SELECT {key}, sum(id), avg(id), max(id), count(*) FROM {source} GROUP BY {key}",
    "SELECT sum(id), min(id), count(id), count(*) FROM {source} WHERE {leaf}",
)


class Format(Protocol):
    """What differs between formats of tables. `table` is the name of the table."""

    table: str
    settings: Sequence[Mapping[str, str]]  # under which questions are asked

    def create(self, draw: random.Random, columns: str) -> str:
        """The statement that creates the table."""

    def maintain(self, draw: random.Random) -> str:
        """A statement that writes the files anew, or changes how they are written."""

    def restore(self, version: int) -> str:
        """The statement that makes a version the current one."""

    def versions(self, spark: SparkSession) -> list[int]:
        """All versions that can be read."""

    def at(self, version: int) -> str:
        """A version of the table in FROM."""


@dataclass(frozen=True)
class Delta:
    """A table of Delta."""

    table: str = "h"
    settings: Sequence[Mapping[str, str]] = (
        {},
        {},
        {"spark.databricks.delta.deletionVectors.useMetadataRowIndex": "false"},
        {"spark.sql.parquet.enableVectorizedReader": "false"},
        {"spark.sql.adaptive.enabled": "false"},
    )

    def create(self, draw: random.Random, columns: str) -> str:
        mapping = draw.choice(["none", "name", "name", "id"])
        vectors = draw.choice(["true", "true", "false"])
        more = draw.choice(["", "", ", 'delta.enableRowTracking'='true'", ", 'delta.enableChangeDataFeed'='true'"])
        properties = f"'delta.enableDeletionVectors'='{vectors}', 'delta.columnMapping.mode'='{mapping}'{more}"
        by = draw.choice(["", "", "PARTITIONED BY (p)"])
        return f"CREATE TABLE {self.table} ({columns}) USING delta {by} TBLPROPERTIES ({properties})"

    def maintain(self, draw: random.Random) -> str:
        return f"OPTIMIZE {self.table}"

    def restore(self, version: int) -> str:
        return f"RESTORE TABLE {self.table} TO VERSION AS OF {version}"

    def versions(self, spark: SparkSession) -> list[int]:
        rows = spark.sql(f"DESCRIBE HISTORY {self.table}").select("version").collect()
        return sorted(version for (version,) in rows)

    def at(self, version: int) -> str:
        return f"{self.table} VERSION AS OF {version}"


@dataclass(frozen=True)
class Iceberg:
    """A table of Iceberg, of any version of its format, in a catalog of Hadoop kind or in the session's own."""

    table: str
    settings: Sequence[Mapping[str, str]] = (
        {},
        {},
        {"spark.sql.iceberg.vectorization.enabled": "false"},
        {"spark.sql.adaptive.enabled": "false"},
        {"spark.sql.sources.v2.bucketing.enabled": "true"},
    )

    def create(self, draw: random.Random, columns: str) -> str:
        version = draw.choice(["1", "2", "2", "3", "3"])
        modes = ["copy-on-write"] if version == "1" else ["merge-on-read", "merge-on-read", "copy-on-write"]
        properties = {
            **SMALL_BLOCKS,
            "format-version": version,
            "write.format.default": draw.choice(["parquet", "parquet", "orc"]),
            **{f"write.{statement}.mode": draw.choice(modes) for statement in ("delete", "update", "merge")},
        }
        pairs = ", ".join(f"'{name}'='{value}'" for name, value in properties.items())
        by = draw.choice(["", "", "PARTITIONED BY (p)", "PARTITIONED BY (bucket(3, id))", "PARTITIONED BY (days(d))"])
        return f"CREATE TABLE {self.table} ({columns}) USING iceberg {by} TBLPROPERTIES ({pairs})"

    def maintain(self, draw: random.Random) -> str:
        catalog, database, name = self.table.split(".")
        return draw.choice(
            [
                f"CALL {catalog}.system.rewrite_data_files(table => '{database}.{name}', "
                "options => map('rewrite-all', 'true'))",
                f"CALL {catalog}.system.rewrite_position_delete_files(table => '{database}.{name}', "
                "options => map('rewrite-all', 'true'))",
                f"CALL {catalog}.system.expire_snapshots(table => '{database}.{name}', "
                "older_than => current_timestamp(), retain_last => 3)",
                f"ALTER TABLE {self.table} ADD PARTITION FIELD truncate(2, s)",
                f"ALTER TABLE {self.table} ADD PARTITION FIELD p",
                f"ALTER TABLE {self.table} DROP PARTITION FIELD p",
                f"ALTER TABLE {self.table} ALTER COLUMN n TYPE BIGINT",
                f"ALTER TABLE {self.table} ALTER COLUMN k TYPE BIGINT",
                f"ALTER TABLE {self.table} ALTER COLUMN k FIRST",
            ]
        )

    def restore(self, version: int) -> str:
        catalog, database, name = self.table.split(".")
        return f"CALL {catalog}.system.set_current_snapshot(table => '{database}.{name}', snapshot_id => {version})"

    def versions(self, spark: SparkSession) -> list[int]:
        rows = spark.sql(f"SELECT snapshot_id FROM {self.table}.snapshots ORDER BY committed_at").collect()
        return [id for (id,) in rows]

    def at(self, version: int) -> str:
        return f"{self.table} VERSION AS OF {version}"


@dataclass
class History:
    """A table with its life so far; `told` are the statements, to say how a failure came about."""

    spark: SparkSession
    draw: random.Random
    format: Format
    told: list[str] = field(default_factory=list)
    refused: int = 0
    next_id: int = 0

    @property
    def table(self) -> str:
        return self.format.table

    def begin(self) -> None:
        """Create the table, of any kind, and its indexes."""
        columns = ", ".join(f"{name} {TYPES[name]}" for name in ("id", "k", "s", "d", "p"))
        self._run(self.format.create(self.draw, columns))
        self.insert()
        for name, keys in INDEXES.items():
            self._run(f"CREATE INDEX {name} ON TABLE {self.table} ({keys}) AS 'BITMAP'")
        type = self.draw.choice(["BITMAP", "AGGREGATE"])
        self._run(f"CREATE INDEX sums ON TABLE {self.table} (s) AS '{type}' IDXPROPERTIES ('aggregates'='sum(id)')")

    def step(self) -> None:
        """Do something to the table, or to an index."""
        steps: list[tuple[int, Callable[[], None]]] = [
            (4, self.insert),
            (6, self.delete),
            (3, self.update),
            (3, self.merge),
            (2, lambda: self._run(self.format.maintain(self.draw))),
            (2, self.restore),
            (1, lambda: self._run(f"INSERT OVERWRITE {self.table} SELECT * FROM {self.table} WHERE id % 3 <> 0")),
            (3, self.columns),
            (6, lambda: self._run(f"ALTER INDEX {self.draw.choice([*INDEXES, 'sums'])} ON {self.table} REBUILD")),
            (1, self.make_anew),
        ]
        weights = [weight for weight, _ in steps]
        self.draw.choices([one for _, one in steps], weights)[0]()

    def insert(self) -> None:
        rows, files = self.draw.choice([(3, 1), (500, 1), (4000, 1), (4000, 2)])
        first, self.next_id = self.next_id, self.next_id + rows
        chosen = ", ".join(f"{self._value(name)} AS {name}" for name in self._columns())
        self._run(f"INSERT INTO {self.table} SELECT {chosen} FROM range({first}, {first + rows}, 1, {files})")

    def delete(self) -> None:
        self._run(f"DELETE FROM {self.table} WHERE {self.condition(self._columns(), few=True)}")

    def update(self) -> None:
        columns = self._columns()
        changed = self.draw.choice([name for name in columns if name in ("k", "s", "n", "p")] or ["id"])
        value = {"k": "CAST(id % 3 AS INT)", "s": "'s1'", "n": "NULL", "p": "'p1'", "id": "id"}[changed]
        self._run(f"UPDATE {self.table} SET {changed} = {value} WHERE {self.condition(columns, few=True)}")

    def merge(self) -> None:
        columns = self._columns()
        first = self.draw.randrange(max(self.next_id, 1))
        self.next_id += 20
        chosen = ", ".join(f"{self._value(name)} AS {name}" for name in columns)
        source = f"SELECT {chosen} FROM range({first}, {first + 200}, 10)"
        matched = self.draw.choice(["DELETE", "UPDATE SET *"])
        self._run(
            f"MERGE INTO {self.table} t USING ({source}) u ON t.id = u.id WHEN MATCHED THEN {matched} "
            "WHEN NOT MATCHED THEN INSERT *"
        )

    def restore(self) -> None:
        self._run(self.format.restore(self.draw.choice(self.format.versions(self.spark))))

    def columns(self) -> None:
        """Add, rename or drop a column, also one of an index, or add one of the name of a dropped one."""
        columns = self._columns()
        lacking = [name for name in TYPES if name not in columns]
        change = self.draw.choice(["add", "rename", "drop"])
        if change == "add" and lacking:
            name = self.draw.choice(lacking)
            self._run(f"ALTER TABLE {self.table} ADD COLUMN {name} {TYPES[name]}")
        elif change == "rename" and "n" in columns and "k" not in columns:
            self._run(f"ALTER TABLE {self.table} RENAME COLUMN n TO k")
        elif change == "rename" and "k" in columns and "n" not in columns:
            self._run(f"ALTER TABLE {self.table} RENAME COLUMN k TO n")
        elif change == "drop":
            self._run(f"ALTER TABLE {self.table} DROP COLUMN {self.draw.choice(['k', 's', 'd', 'n'])}")

    def make_anew(self) -> None:
        name = self.draw.choice(["ik", "ex"])
        if set("k" if name == "ik" else EXPRESSIONS) <= set(self._columns()):
            self._run(f"DROP INDEX IF EXISTS {name} ON {self.table}")
            self._run(f"CREATE INDEX IF NOT EXISTS {name} ON TABLE {self.table} ({INDEXES[name]}) AS 'BITMAP'")

    def questions(self) -> Iterator[tuple[str, Sequence[str]]]:
        """A query for rows and one for an aggregation, of the table or a version of it, and ways to ask them."""
        yield self._question(ROWS), self.draw.choice([("", "blocks"), ("blocks", "files"), ("files", "rows")])
        yield self._question(AGGREGATIONS), ("index only", self.draw.choice(["", "blocks", "files"]))

    def _question(self, kinds: Sequence[str]) -> str:
        version = self.draw.choice([None, None, *self.format.versions(self.spark)])
        source = self.table if version is None else self.format.at(version)
        columns = self.spark.sql(f"SELECT * FROM {source}").columns
        keys = [name for name in columns if name != "id"] or ["id"]
        if kinds is AGGREGATIONS:
            keys += [sql for name, sql in EXPRESSIONS.items() if name in columns]
        key = self.draw.choice(keys)
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
        if name in EXPRESSIONS and self.draw.random() < 0.3:
            value = f"'s{number % 8}'" if name == "s" else number % 8
            return self.draw.choice([f"{EXPRESSIONS[name]} {test} {value}" for test in ("=", "<>", "<")])
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
            case "id" if number % 3 == 0:
                return f"{name} IN ({number}, {number * 100})"
        return f"{name} BETWEEN {number * 100} AND {number * 100 + 400}"

    def _columns(self) -> list[str]:
        return list(self.spark.table(self.table).columns)

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
