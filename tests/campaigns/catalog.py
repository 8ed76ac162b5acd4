"""A catalog of two databases, as several sessions have made it, and the parts of statements about it."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import hive_bitmap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS = ("PARQUET", "PARQUET", "ORC", "TEXTFILE")
KEY_TYPES = ("int", "int", "bigint", "string", "double")
PARTITIONS = ((), (("p", "string"),), (("p", "string"),), (("p", "int"),), (("p", "string"), ("q", "int")))
VALUES = {"string": ("a", "b", "c d", "2026-01", "1"), "int": ("1", "2", "01", "7")}
NAMES = ("t0", "t1", "t2")


@dataclass
class Made:
    """A table as it was made: what is needed to write the next statement about it, which may be outdated."""

    format: str
    key: str
    partitions: tuple[tuple[str, str], ...]
    folder: Path | None
    native: bool
    columns: list[str] = field(default_factory=lambda: ["k", "s", "id"])


class Catalog:
    """Two databases with a few tables each, sessions of one JVM, and what was done."""

    def __init__(self, spark: SparkSession, prefix: str, folder: Path, rng: random.Random) -> None:
        self.rng, self.folder = rng, folder
        self.sessions = [spark, spark.newSession(), spark.newSession()]
        self.databases = [f"{prefix}_a", f"{prefix}_b"]
        self.tables: dict[tuple[str, str], Made] = {}
        self.numbers = 0
        self.focus: tuple[str, str] | None = None  # the table that most steps and queries are about, for a while
        self.refused: Counter[str] = Counter()
        self.story: list[str] = []
        for database in self.databases:
            spark.sql(f"CREATE DATABASE {database} LOCATION '{folder / database}'")

    def run(self, session: SparkSession, text: str) -> None:
        self.story.append(text)
        session.sql(text)

    def index_run(self, session: SparkSession, text: str) -> None:
        self.story.append(text)
        hive_bitmap.sql(session, text)

    def session(self) -> SparkSession:
        """The first session, or more rarely another one."""
        return self.rng.choice([*self.sessions, *self.sessions[:1] * 3])

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def any_table(self, *, partitioned: bool = False) -> tuple[str, str] | None:
        names = [name for name, made in self.tables.items() if made.partitions or not partitioned]
        if self.focus in names and self.rng.random() < 0.8:
            return self.focus
        return self.rng.choice(names) if names else None

    def make(self, session: SparkSession, database: str, name: str, like: Made | None = None) -> None:
        rng, key, partitions, format = self.rng, *self._shape()
        folder = None if rng.random() < 0.3 else self.folder / f"{name}-{self.number()}"
        if like is not None and like.folder is not None:
            key, format, folder = like.key, like.format, like.folder
        made = Made(format, key, partitions, folder, rng.random() < 0.4 and format != "TEXTFILE")
        columns = f"k {key}, s string, id bigint"
        at = f" LOCATION '{folder}'" if folder else ""
        if made.native:
            by = f" PARTITIONED BY ({', '.join(p for p, _ in partitions)})" if partitions else ""
            all_columns = columns + "".join(f", {p} {type}" for p, type in partitions)
            text = f"CREATE TABLE {database}.{name} ({all_columns}) USING {format}{by}{at}"
        else:
            by = f" PARTITIONED BY ({', '.join(f'{p} {type}' for p, type in partitions)})" if partitions else ""
            external = "EXTERNAL " if folder else ""
            text = f"CREATE {external}TABLE {database}.{name} ({columns}){by} STORED AS {format}{at}"
        self.run(session, text)
        self.tables[database, name] = made
        if partitions and folder and folder.exists():
            self.run(session, f"MSCK REPAIR TABLE {database}.{name}")
        for _ in range(rng.randint(1, 3)):
            self.insert_rows(session, (database, name), "INTO")
        if rng.random() < 0.8:
            self.index_run(session, f"CREATE INDEX i{self.number()} ON TABLE {database}.{name} (k) AS 'BITMAP'")

    def _shape(self) -> tuple[str, tuple[tuple[str, str], ...], str]:
        return self.rng.choice(KEY_TYPES), self.rng.choice(PARTITIONS), self.rng.choice(FORMATS)

    def insert_rows(self, session: SparkSession, name: tuple[str, str], word: str) -> None:
        made, first = self.tables[name], self.rng.randint(0, 1000)
        static = bool(made.partitions) and self.rng.random() < 0.7
        spec = f" PARTITION ({self.values(made)})" if static else ""
        columns = [f"IF(id % 11 = 0, NULL, CAST(id % 7 AS {made.key}))", "concat('x', id % 5)", "id"]
        columns += ["NULL"] * (len(made.columns) - 3)
        if not static:
            columns += [f"CAST('{self.rng.choice(VALUES[type])}' AS {type})" for _, type in made.partitions]
        table = f"{'TABLE ' if word == 'OVERWRITE' else ''}{'.'.join(name)}"
        rows = f"range({first}, {first + self.rng.choice([0, 7, 50, 50])}, 1, {self.rng.randint(1, 2)})"
        self.run(session, f"INSERT {word} {table}{spec} SELECT {', '.join(columns)} FROM {rows}")

    def values(self, made: Made) -> str:
        return ", ".join(f"{name} = '{self.rng.choice(VALUES[type])}'" for name, type in made.partitions)

    def known_values(self, session: SparkSession, name: tuple[str, str]) -> str:
        """The values of a partition that there is, or any."""
        shown = [str(row[0]) for row in session.sql(f"SHOW PARTITIONS {'.'.join(name)}").collect()]
        if not shown:
            return self.values(self.tables[name])
        parts = [part.partition("=") for part in self.rng.choice(shown).split("/")]
        return ", ".join(f"{column} = '{value.replace('%20', ' ')}'" for column, _, value in parts)

    def spec(self, name: tuple[str, str]) -> str:
        made = self.tables[name]
        return f" PARTITION ({self.values(made)})" if made.partitions and self.rng.random() < 0.5 else ""

    def index_of(self, session: SparkSession, name: tuple[str, str]) -> str | None:
        shown = [one.definition.name for one in hive_bitmap.show(session, ".".join(name))]
        return self.rng.choice(shown) if shown else None

    def alike(self, one: Made, other: Made) -> bool:
        return (one.format, one.key, one.partitions) == (other.format, other.key, other.partitions)

    def folders(self, made: Made, like: Made | None = None) -> list[Path]:
        """The partition folders of a table, if it may share them with `like`."""
        if made.folder is None or (like is not None and not self.alike(made, like)):
            return []
        return sorted(path for path in made.folder.glob("/".join(["*=*"] * max(1, len(made.partitions)))))

    def files(self, name: tuple[str, str]) -> list[Path]:
        folder = self.tables[name].folder or self.folder / name[0] / name[1]
        return sorted(path for path in folder.rglob("[!._]*") if path.is_file())

    def refresh_everywhere(self, name: tuple[str, str]) -> None:
        for session in self.sessions:
            session.catalog.refreshTable(".".join(name))
