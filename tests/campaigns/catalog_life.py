"""The life of a catalog: databases, tables, partitions, files and indexes in random steps of several sessions.

A step that Spark or hive_bitmap refuses is counted and no failure: the statements are drawn, not chosen with care.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

import hive_bitmap
from hive_bitmap.errors import HiveBitmapError
from tests.asking import OFF, under
from tests.campaigns.catalog import KEY_TYPES, NAMES, Catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class CatalogLife(Catalog):
    """What may happen to a catalog: each method is a step."""

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

    # Tables

    def create(self, session: SparkSession) -> None:
        free = [(d, n) for d in self.databases for n in NAMES if (d, n) not in self.tables]
        if free:
            self.make(session, *self.rng.choice(free))

    def drop(self, session: SparkSession) -> None:
        if name := self.any_table():
            self.run(session, f"DROP TABLE IF EXISTS {'.'.join(name)}")
            self.tables.pop(name)

    def make_again(self, session: SparkSession) -> None:
        """The same name with other values, another schema or format, perhaps in the same folder."""
        if name := self.any_table():
            before = self.tables[name]
            self.run(session, f"DROP TABLE {'.'.join(name)}")
            self.tables.pop(name)
            self.make(session, *name, like=before if self.rng.random() < 0.5 else None)

    def rename(self, session: SparkSession) -> None:
        if name := self.any_table():
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
        if name := self.any_table():
            column = f"c{self.number()}"
            self.run(session, f"ALTER TABLE {'.'.join(name)} ADD COLUMNS ({column} {self.rng.choice(KEY_TYPES)})")
            self.tables[name].columns.append(column)

    def set_properties(self, session: SparkSession) -> None:
        if name := self.any_table():
            self.run(session, f"ALTER TABLE {'.'.join(name)} SET TBLPROPERTIES ('x' = '{self.number()}')")

    def set_serde_properties(self, session: SparkSession) -> None:
        if name := self.any_table():
            delimiter = self.rng.choice([",", "|"])
            properties = f"('field.delim' = '{delimiter}', 'serialization.format' = '{delimiter}')"
            self.run(session, f"ALTER TABLE {'.'.join(name)}{self.spec(name)} SET SERDEPROPERTIES {properties}")

    def move(self, session: SparkSession) -> None:
        """SET LOCATION of a table: to a new folder, to a copy of its own, or to another table's."""
        if (name := self.any_table()) and (made := self.tables[name]).folder:
            target = self.folder / f"moved{self.number()}"
            if self.rng.random() < 0.6:
                shutil.copytree(made.folder, target)
            elif others := [other.folder for other in self.tables.values() if other.folder and self.alike(other, made)]:
                target = self.rng.choice(others)
            self.run(session, f"ALTER TABLE {'.'.join(name)} SET LOCATION '{target}'")
            made.folder = target
            self.refresh_everywhere(name)

    # Partitions

    def add_partition(self, session: SparkSession) -> None:
        """A new partition: of its own folder, of that of another partition, or of another table's partition."""
        if name := self.any_table(partitioned=True):
            made, spec = self.tables[name], self.values(self.tables[name])
            folders = self.folders(made) + [f for other in self.tables.values() for f in self.folders(other, made)]
            at = f" LOCATION '{self.rng.choice(folders)}'" if folders and self.rng.random() < 0.6 else ""
            self.run(session, f"ALTER TABLE {'.'.join(name)} ADD PARTITION ({spec}){at}")

    def add_again(self, session: SparkSession) -> None:
        """Another value for the folder of a partition that is dropped."""
        if (name := self.any_table(partitioned=True)) and (folders := self.folders(self.tables[name])):
            folder = self.rng.choice(folders)
            old = ", ".join(
                f"{part.partition('=')[0]} = '{part.partition('=')[2]}'" for part in folder.parts if "=" in part
            )
            self.run(session, f"ALTER TABLE {'.'.join(name)} DROP IF EXISTS PARTITION ({old})")
            new = self.values(self.tables[name])
            self.run(session, f"ALTER TABLE {'.'.join(name)} ADD PARTITION ({new}) LOCATION '{folder}'")

    def drop_partition(self, session: SparkSession) -> None:
        if name := self.any_table(partitioned=True):
            self.run(session, f"ALTER TABLE {'.'.join(name)} DROP PARTITION ({self.known_values(session, name)})")

    def rename_partition(self, session: SparkSession) -> None:
        if name := self.any_table(partitioned=True):
            old, new = self.known_values(session, name), self.values(self.tables[name])
            self.run(session, f"ALTER TABLE {'.'.join(name)} PARTITION ({old}) RENAME TO PARTITION ({new})")

    def move_partition(self, session: SparkSession) -> None:
        if name := self.any_table(partitioned=True):
            made = self.tables[name]
            folders = [*self.folders(made), self.folder / f"moved{self.number()}"]
            spec, target = self.known_values(session, name), self.rng.choice(folders)
            self.run(session, f"ALTER TABLE {'.'.join(name)} PARTITION ({spec}) SET LOCATION '{target}'")

    def repair(self, session: SparkSession) -> None:
        if name := self.any_table(partitioned=True):
            self.run(session, f"MSCK REPAIR TABLE {'.'.join(name)}")

    # Rows and files

    def insert(self, session: SparkSession) -> None:
        if name := self.any_table():
            self.insert_rows(session, name, "INTO")

    def overwrite(self, session: SparkSession) -> None:
        if name := self.any_table():
            self.insert_rows(session, name, "OVERWRITE")

    def truncate(self, session: SparkSession) -> None:
        if name := self.any_table():
            self.run(session, f"TRUNCATE TABLE {'.'.join(name)}{self.spec(name)}")

    def delete_file(self, session: SparkSession) -> None:
        if (name := self.any_table()) and (files := self.files(name)):
            file = self.rng.choice(files)
            self.story.append(f"rm {file}")
            file.unlink()
            self.refresh_everywhere(name)

    def replace_file(self, session: SparkSession) -> None:
        """One of a table's files takes the content of another one; its size and name may stay the same."""
        if (name := self.any_table()) and len(files := self.files(name)) > 1:
            one, other = self.rng.sample(files, 2)
            self.story.append(f"cp {other} {one}")
            shutil.copyfile(other, one)
            self.refresh_everywhere(name)

    def copy_file(self, session: SparkSession) -> None:
        if (name := self.any_table()) and (files := self.files(name)):
            file, number = self.rng.choice(files), self.number()
            target = self.rng.choice(files).parent / f"copied{number}-{file.name}"
            self.story.append(f"cp {file} {target}")
            shutil.copyfile(file, target)
            self.refresh_everywhere(name)

    def cache(self, session: SparkSession) -> None:
        if name := self.any_table():
            self.run(session, f"CACHE TABLE {'.'.join(name)}")

    def uncache(self, session: SparkSession) -> None:
        for name in self.tables:
            self.run(session, f"UNCACHE TABLE IF EXISTS {'.'.join(name)}")

    def refresh(self, session: SparkSession) -> None:
        if name := self.any_table():
            self.run(session, f"REFRESH TABLE {'.'.join(name)}")

    # Indexes

    def create_index(self, session: SparkSession) -> None:
        if name := self.any_table():
            keys = self.rng.choice(["k", "k", "s", "k, s", "id"])
            deferred = " WITH DEFERRED REBUILD" if self.rng.random() < 0.2 else ""
            follows = not deferred and self.rng.random() < 0.5
            said = " IDXPROPERTIES ('auto_refresh' = 'true', 'refresh_interval' = '1 second')" if follows else deferred
            text = f"CREATE INDEX i{self.number()} ON TABLE {'.'.join(name)} ({keys}) AS 'BITMAP'{said}"
            self.index_run(session, text)

    def rebuild(self, session: SparkSession) -> None:
        if name := self.any_table():
            full, compact = self.rng.random() < 0.1, self.rng.random() < 0.2
            self.story.append(f"rebuild {'.'.join(name)} full={full} compact={compact}")
            hive_bitmap.rebuild(session, ".".join(name), full=full, compact=compact)

    def drop_index(self, session: SparkSession) -> None:
        if (name := self.any_table()) and (index := self.index_of(session, name)):
            self.index_run(session, f"DROP INDEX {index} ON {'.'.join(name)}")

    def rename_index(self, session: SparkSession) -> None:
        if (name := self.any_table()) and (index := self.index_of(session, name)):
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
