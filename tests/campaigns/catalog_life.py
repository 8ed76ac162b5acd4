"""The life of a catalog: databases, tables, partitions, files and indexes in random steps of several sessions.

A step that Spark or hive_bitmap refuses is counted and no failure: the statements are drawn, not chosen with care.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

import hive_bitmap
from hive_bitmap.errors import HiveBitmapError
from tests.asking import OFF, under

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


class CatalogLife:
    """Two databases with a few tables each, sessions of one JVM, and what may happen."""

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

    def step(self) -> str:
        """Do a random step in a random session, with the rule on or off; return its name."""
        if self.focus not in self.tables or self.rng.random() < 0.08:
            self.focus = self.rng.choice(sorted(self.tables)) if self.tables else None
        do = self.rng.choices([step for step, _ in STEPS], [weight for _, weight in STEPS])[0]
        session = self.session()
        settings = OFF if self.rng.random() < 0.4 else {}
        self.story.append(f"-- {do.__name__}, session {self.sessions.index(session)}{', rule off' if settings else ''}")
        try:
            with under(session, settings):
                do(self, session)
        except (PySparkException, HiveBitmapError) as e:
            self.refused[f"{do.__name__}: {type(e).__name__}"] += 1
            self.story.append(f"--   refused: {str(e).splitlines()[0][:150]}")
        return do.__name__

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

    # Tables

    def create(self, session: SparkSession) -> None:
        free = [(d, n) for d in self.databases for n in NAMES if (d, n) not in self.tables]
        if free:
            self._make(session, *self.rng.choice(free))

    def drop(self, session: SparkSession) -> None:
        if name := self._any():
            self.run(session, f"DROP TABLE IF EXISTS {'.'.join(name)}")
            self.tables.pop(name)

    def make_again(self, session: SparkSession) -> None:
        """The same name with other values, another schema or format, perhaps in the same folder."""
        if name := self._any():
            before = self.tables[name]
            self.run(session, f"DROP TABLE {'.'.join(name)}")
            self.tables.pop(name)
            self._make(session, *name, like=before if self.rng.random() < 0.5 else None)

    def rename(self, session: SparkSession) -> None:
        if name := self._any():
            new = (name[0], self.rng.choice(NAMES))
            self.run(session, f"ALTER TABLE {'.'.join(name)} RENAME TO {'.'.join(new)}")
            self.tables[new] = self.tables.pop(name)

    def swap(self, session: SparkSession) -> None:
        """Two tables change their names, as in a blue-green switch."""
        database = self.rng.choice(self.databases)
        names = [name for name in self.tables if name[0] == database]
        if len(names) > 1:
            one, two = self.rng.sample(names, 2)
            for old, new in ((one[1], "tmp"), (two[1], one[1]), ("tmp", two[1])):
                self.run(session, f"ALTER TABLE {database}.{old} RENAME TO {database}.{new}")
            self.tables[one], self.tables[two] = self.tables[two], self.tables[one]

    def add_columns(self, session: SparkSession) -> None:
        if name := self._any():
            column = f"c{self.number()}"
            self.run(session, f"ALTER TABLE {'.'.join(name)} ADD COLUMNS ({column} {self.rng.choice(KEY_TYPES)})")
            self.tables[name].columns.append(column)

    def set_properties(self, session: SparkSession) -> None:
        if name := self._any():
            self.run(session, f"ALTER TABLE {'.'.join(name)} SET TBLPROPERTIES ('x' = '{self.number()}')")

    def set_serde_properties(self, session: SparkSession) -> None:
        if name := self._any():
            delimiter = self.rng.choice([",", "|"])
            properties = f"('field.delim' = '{delimiter}', 'serialization.format' = '{delimiter}')"
            self.run(session, f"ALTER TABLE {'.'.join(name)}{self._spec(name)} SET SERDEPROPERTIES {properties}")

    def move(self, session: SparkSession) -> None:
        """SET LOCATION of a table: to a new folder, to a copy of its own, or to another table's."""
        if (name := self._any()) and (made := self.tables[name]).folder:
            target = self.folder / f"moved{self.number()}"
            if self.rng.random() < 0.6:
                shutil.copytree(made.folder, target)
            elif others := [
                other.folder for other in self.tables.values() if other.folder and self._alike(other, made)
            ]:
                target = self.rng.choice(others)
            self.run(session, f"ALTER TABLE {'.'.join(name)} SET LOCATION '{target}'")
            made.folder = target
            self._refresh(name)

    # Partitions

    def add_partition(self, session: SparkSession) -> None:
        """A new partition: of its own folder, of that of another partition, or of another table's partition."""
        if name := self._any(partitioned=True):
            made, spec = self.tables[name], self._values(self.tables[name])
            folders = self._folders(made) + [f for other in self.tables.values() for f in self._folders(other, made)]
            at = f" LOCATION '{self.rng.choice(folders)}'" if folders and self.rng.random() < 0.6 else ""
            self.run(session, f"ALTER TABLE {'.'.join(name)} ADD PARTITION ({spec}){at}")

    def add_again(self, session: SparkSession) -> None:
        """Another value for the folder of a partition that is dropped."""
        if (name := self._any(partitioned=True)) and (folders := self._folders(self.tables[name])):
            folder = self.rng.choice(folders)
            old = ", ".join(
                f"{part.partition('=')[0]} = '{part.partition('=')[2]}'" for part in folder.parts if "=" in part
            )
            self.run(session, f"ALTER TABLE {'.'.join(name)} DROP IF EXISTS PARTITION ({old})")
            new = self._values(self.tables[name])
            self.run(session, f"ALTER TABLE {'.'.join(name)} ADD PARTITION ({new}) LOCATION '{folder}'")

    def drop_partition(self, session: SparkSession) -> None:
        if name := self._any(partitioned=True):
            self.run(session, f"ALTER TABLE {'.'.join(name)} DROP PARTITION ({self._known_values(session, name)})")

    def rename_partition(self, session: SparkSession) -> None:
        if name := self._any(partitioned=True):
            old, new = self._known_values(session, name), self._values(self.tables[name])
            self.run(session, f"ALTER TABLE {'.'.join(name)} PARTITION ({old}) RENAME TO PARTITION ({new})")

    def move_partition(self, session: SparkSession) -> None:
        if name := self._any(partitioned=True):
            made = self.tables[name]
            folders = [*self._folders(made), self.folder / f"moved{self.number()}"]
            spec, target = self._known_values(session, name), self.rng.choice(folders)
            self.run(session, f"ALTER TABLE {'.'.join(name)} PARTITION ({spec}) SET LOCATION '{target}'")

    def repair(self, session: SparkSession) -> None:
        if name := self._any(partitioned=True):
            self.run(session, f"MSCK REPAIR TABLE {'.'.join(name)}")

    # Rows and files

    def insert(self, session: SparkSession) -> None:
        if name := self._any():
            self._insert(session, name, "INTO")

    def overwrite(self, session: SparkSession) -> None:
        if name := self._any():
            self._insert(session, name, "OVERWRITE")

    def truncate(self, session: SparkSession) -> None:
        if name := self._any():
            self.run(session, f"TRUNCATE TABLE {'.'.join(name)}{self._spec(name)}")

    def delete_file(self, session: SparkSession) -> None:
        if (name := self._any()) and (files := self._files(name)):
            file = self.rng.choice(files)
            self.story.append(f"rm {file}")
            file.unlink()
            self._refresh(name)

    def replace_file(self, session: SparkSession) -> None:
        """One of a table's files takes the content of another one; its size and name may stay the same."""
        if (name := self._any()) and len(files := self._files(name)) > 1:
            one, other = self.rng.sample(files, 2)
            self.story.append(f"cp {other} {one}")
            shutil.copyfile(other, one)
            self._refresh(name)

    def copy_file(self, session: SparkSession) -> None:
        if (name := self._any()) and (files := self._files(name)):
            file, number = self.rng.choice(files), self.number()
            target = self.rng.choice(files).parent / f"copied{number}-{file.name}"
            self.story.append(f"cp {file} {target}")
            shutil.copyfile(file, target)
            self._refresh(name)

    def cache(self, session: SparkSession) -> None:
        if name := self._any():
            self.run(session, f"CACHE TABLE {'.'.join(name)}")

    def uncache(self, session: SparkSession) -> None:
        for name in self.tables:
            self.run(session, f"UNCACHE TABLE IF EXISTS {'.'.join(name)}")

    def refresh(self, session: SparkSession) -> None:
        if name := self._any():
            self.run(session, f"REFRESH TABLE {'.'.join(name)}")

    # Indexes

    def create_index(self, session: SparkSession) -> None:
        if name := self._any():
            keys = self.rng.choice(["k", "k", "s", "k, s", "id"])
            deferred = " WITH DEFERRED REBUILD" if self.rng.random() < 0.2 else ""
            text = f"CREATE INDEX i{self.number()} ON TABLE {'.'.join(name)} ({keys}) AS 'BITMAP'{deferred}"
            self.index_run(session, text)

    def rebuild(self, session: SparkSession) -> None:
        if name := self._any():
            full, compact = self.rng.random() < 0.1, self.rng.random() < 0.2
            self.story.append(f"rebuild {'.'.join(name)} full={full} compact={compact}")
            hive_bitmap.rebuild(session, ".".join(name), full=full, compact=compact)

    def drop_index(self, session: SparkSession) -> None:
        if (name := self._any()) and (index := self._index(session, name)):
            self.index_run(session, f"DROP INDEX {index} ON {'.'.join(name)}")

    def rename_index(self, session: SparkSession) -> None:
        if (name := self._any()) and (index := self._index(session, name)):
            self.index_run(session, f"ALTER INDEX {index} ON {'.'.join(name)} RENAME TO i{self.number()}")

    def clean(self, session: SparkSession) -> None:
        session.catalog.setCurrentDatabase(self.rng.choice(self.databases))
        self.story.append(f"clean {session.catalog.currentDatabase()}")
        hive_bitmap.clean(session, grace_seconds=0)

    def drop_database(self, session: SparkSession) -> None:
        database = self.rng.choice(self.databases)
        for other in self.sessions:
            other.catalog.setCurrentDatabase("default")
        self.run(session, f"DROP DATABASE {database} CASCADE")
        self.tables = {name: made for name, made in self.tables.items() if name[0] != database}
        self.run(session, f"CREATE DATABASE {database} LOCATION '{self.folder / database}'")

    # What steps are made of

    def _any(self, *, partitioned: bool = False) -> tuple[str, str] | None:
        names = [name for name, made in self.tables.items() if made.partitions or not partitioned]
        if self.focus in names and self.rng.random() < 0.8:
            return self.focus
        return self.rng.choice(names) if names else None

    def _make(self, session: SparkSession, database: str, name: str, like: Made | None = None) -> None:
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
            self._insert(session, (database, name), "INTO")
        if rng.random() < 0.8:
            self.index_run(session, f"CREATE INDEX i{self.number()} ON TABLE {database}.{name} (k) AS 'BITMAP'")

    def _shape(self) -> tuple[str, tuple[tuple[str, str], ...], str]:
        return self.rng.choice(KEY_TYPES), self.rng.choice(PARTITIONS), self.rng.choice(FORMATS)

    def _insert(self, session: SparkSession, name: tuple[str, str], word: str) -> None:
        made, first = self.tables[name], self.rng.randint(0, 1000)
        static = bool(made.partitions) and self.rng.random() < 0.7
        spec = f" PARTITION ({self._values(made)})" if static else ""
        columns = [f"IF(id % 11 = 0, NULL, CAST(id % 7 AS {made.key}))", "concat('x', id % 5)", "id"]
        columns += ["NULL"] * (len(made.columns) - 3)
        if not static:
            columns += [f"CAST('{self.rng.choice(VALUES[type])}' AS {type})" for _, type in made.partitions]
        table = f"{'TABLE ' if word == 'OVERWRITE' else ''}{'.'.join(name)}"
        rows = f"range({first}, {first + self.rng.choice([0, 7, 50, 50])}, 1, {self.rng.randint(1, 2)})"
        self.run(session, f"INSERT {word} {table}{spec} SELECT {', '.join(columns)} FROM {rows}")

    def _values(self, made: Made) -> str:
        return ", ".join(f"{name} = '{self.rng.choice(VALUES[type])}'" for name, type in made.partitions)

    def _known_values(self, session: SparkSession, name: tuple[str, str]) -> str:
        """The values of a partition that there is, or any."""
        shown = [str(row[0]) for row in session.sql(f"SHOW PARTITIONS {'.'.join(name)}").collect()]
        if not shown:
            return self._values(self.tables[name])
        parts = [part.partition("=") for part in self.rng.choice(shown).split("/")]
        return ", ".join(f"{column} = '{value.replace('%20', ' ')}'" for column, _, value in parts)

    def _spec(self, name: tuple[str, str]) -> str:
        made = self.tables[name]
        return f" PARTITION ({self._values(made)})" if made.partitions and self.rng.random() < 0.5 else ""

    def _index(self, session: SparkSession, name: tuple[str, str]) -> str | None:
        shown = [one.definition.name for one in hive_bitmap.show(session, ".".join(name))]
        return self.rng.choice(shown) if shown else None

    def _alike(self, one: Made, other: Made) -> bool:
        return (one.format, one.key, one.partitions) == (other.format, other.key, other.partitions)

    def _folders(self, made: Made, like: Made | None = None) -> list[Path]:
        """The partition folders of a table, if it may share them with `like`."""
        if made.folder is None or (like is not None and not self._alike(made, like)):
            return []
        return sorted(path for path in made.folder.glob("/".join(["*=*"] * max(1, len(made.partitions)))))

    def _files(self, name: tuple[str, str]) -> list[Path]:
        folder = self.tables[name].folder or self.folder / name[0] / name[1]
        return sorted(path for path in folder.rglob("[!._]*") if path.is_file())

    def _refresh(self, name: tuple[str, str]) -> None:
        for session in self.sessions:
            session.catalog.refreshTable(".".join(name))


Step = Callable[[CatalogLife, "SparkSession"], None]
STEPS: tuple[tuple[Step, int], ...] = (
    (CatalogLife.create, 6),
    (CatalogLife.drop, 1),
    (CatalogLife.make_again, 4),
    (CatalogLife.rename, 2),
    (CatalogLife.swap, 2),
    (CatalogLife.add_columns, 2),
    (CatalogLife.set_properties, 1),
    (CatalogLife.set_serde_properties, 1),
    (CatalogLife.move, 3),
    (CatalogLife.add_partition, 5),
    (CatalogLife.add_again, 4),
    (CatalogLife.drop_partition, 3),
    (CatalogLife.rename_partition, 4),
    (CatalogLife.move_partition, 4),
    (CatalogLife.repair, 1),
    (CatalogLife.insert, 5),
    (CatalogLife.overwrite, 4),
    (CatalogLife.truncate, 1),
    (CatalogLife.delete_file, 2),
    (CatalogLife.replace_file, 2),
    (CatalogLife.copy_file, 2),
    (CatalogLife.cache, 1),
    (CatalogLife.uncache, 2),
    (CatalogLife.refresh, 1),
    (CatalogLife.create_index, 5),
    (CatalogLife.rebuild, 7),
    (CatalogLife.drop_index, 2),
    (CatalogLife.rename_index, 1),
    (CatalogLife.clean, 2),
    (CatalogLife.drop_database, 1),
)
