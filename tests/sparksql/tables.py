"""The tables that Spark's SQL inputs ask: their temporary views made into tables, and every column indexed."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import hive_bitmap
from hive_bitmap.core.formats.key_values import KeyColumn, is_simple
from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark.registry import catalog
from tests.sparksql.inputs import text_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_VIEW = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?TEMP(?:ORARY)?\s+VIEW\s+(?:IF\s+NOT\s+EXISTS\s+)?(`[^`]+`|\w+)\b(?!\s*USING)",
    re.IGNORECASE,
)
_DROPPED = re.compile(r"DROP\s+VIEW\s+(IF\s+EXISTS\s+)?(`[^`]+`|\w+)\s*$", re.IGNORECASE)
_ONEK = (
    "unique1 INT, unique2 INT, two INT, four INT, ten INT, twenty INT, hundred INT, thousand INT, twothousand INT, "
    "fivethous INT, tenthous INT, odd INT, even INT, stringu1 STRING, stringu2 STRING, string4 STRING"
)
_FILES = {  # a file in the jar, and its columns
    "aggtest": ("agg.data", "a INT, b FLOAT"),
    "onek": ("onek.data", _ONEK),
    "tenk1": ("tenk.data", _ONEK),
}
_QUERIES = {
    "testdata": "SELECT CAST(id AS INT) AS key, CAST(id AS STRING) AS value FROM range(1, 101)",
    "arraydata": "SELECT * FROM VALUES (array(1, 2, 3), array(array(1, 2, 3))), (array(2, 3, 4), array(array(2, 3, 4)))"
    " AS _(arraycol, nestedarraycol)",
    "mapdata": "SELECT * FROM VALUES (map(1, 'a1', 2, 'b1')), (map(1, 'a2', 2, 'b2')) AS _(mapcol)",
}


@dataclass
class Tables:
    """The tables of one file, in databases of its own; `done` counts what became of them."""

    spark: SparkSession
    database: str
    rng: random.Random
    done: Counter[str] = field(default_factory=Counter)
    made: set[str] = field(default_factory=set)  # from views
    _indexed: dict[str, bool] = field(default_factory=dict)  # whether what has been looked at has indexes

    def make_sparks_own(self, jar: Path, folder: Path, text: str) -> None:
        """Make those of the tables of Spark's suite that a text names."""
        words = set(re.findall(r"\w+", text.lower()))
        for name in sorted(words & {*_FILES, *_QUERIES}):
            query = _QUERIES.get(name) or self._from_file(jar, folder, *_FILES[name])
            self.spark.sql(f"CREATE TABLE {name} USING parquet AS {query}")

    def _from_file(self, jar: Path, folder: Path, file: str, columns: str) -> str:
        path = folder / file
        path.write_text(text_of(jar, f"test-data/postgresql/{file}"))
        self.spark.read.csv(str(path), columns, sep="\t").createOrReplaceTempView("_file")
        return "SELECT * FROM _file"

    def run(self, statement: str) -> None:
        """Run a statement that is no query; a temporary view becomes a table where its types can be stored."""
        view, dropped = _VIEW.match(statement), _DROPPED.match(statement)
        name = (view[1] if view else dropped[2] if dropped else "").strip("`").lower()
        if view or name in self.made:
            self.spark.sql(f"DROP TABLE IF EXISTS {self.database}.`{name}`")
            self._indexed.pop(name, None)
        if dropped and name in self.made:
            self.made.discard(name)
            return
        self.spark.sql(statement)
        if view:
            self._make_table(name)

    def _make_table(self, name: str) -> None:
        from pyspark.errors import PySparkException

        table = f"{self.database}.`{name}`"
        form = self.rng.choice(["parquet", "parquet", "orc"])
        try:
            self.spark.sql(f"CREATE TABLE {table} USING {form} AS TABLE {name}")
        except PySparkException:
            self.spark.sql(f"DROP TABLE IF EXISTS {table}")
            self.done["views that stay views"] += 1
        else:
            self.spark.sql(f"DROP VIEW `{name}`")
            self.made.add(name)
            self.done["views made into tables"] += 1

    def index(self) -> None:
        """Index what is new; a table that has grown is rebuilt, or its new files stay unknown to its indexes."""
        for name in self._names():
            table = f"{self.database}.`{name}`"
            has_indexes = bool(catalog.table_and_indexes(self.spark, table)[1])
            if name not in self._indexed or (self._indexed[name] and not has_indexes):  # dropped, and made again
                self._indexed[name] = self._is_built(table)
            elif has_indexes and self.rng.random() < 0.3:
                hive_bitmap.rebuild(self.spark, table)

    def _names(self) -> list[str]:
        listed = self.spark.sql(f"SHOW TABLES IN {self.database}").collect()
        return sorted(row.tableName for row in listed if not row.isTemporary and not row.tableName.endswith("__"))

    def _is_built(self, table: str) -> bool:
        """Index all columns of a table that can be keys; whether that worked."""
        held = [column for column in self.spark.catalog.listColumns(table) if not column.isPartition]
        columns = [column.name for column in held if is_simple(KeyColumn(column.name, column.dataType))]
        encoding = self.rng.choice(["gap", "plain", "ewah", "roaring"])
        indexed = 0
        for column in columns:
            try:
                hive_bitmap.build(self.spark, table, [column], encoding=encoding, deferred=True)
                indexed += 1
            except HiveBitmapError as e:
                self.done[f"columns not indexed: {type(e).__name__}"] += 1
        if indexed:
            hive_bitmap.rebuild(self.spark, table)
        self.done["columns indexed"] += indexed
        self.done["tables indexed" if indexed else "tables not indexed"] += 1
        return indexed > 0

    def served(self) -> dict[str, str]:
        """The tables that have indexes: their names, and the same behind the database."""
        names = {name: f"{self.database}.`{name}`" for name in self._names()}
        return {name: table for name, table in names.items() if catalog.table_and_indexes(self.spark, table)[1]}
