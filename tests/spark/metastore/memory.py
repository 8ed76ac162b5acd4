"""A metastore in memory, and sessions of it: what functions of ours decide is tested with it, without a JVM.

It passes the same contract tests as the real ones (`test_contract`). Names, types, escapes and failures of real
metastores are not imitated, nor is anything that Spark reads: rows, plans and conditions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException

from hive_bitmap.core.table_info import SESSION_CATALOG, Partition, Table, Values, partition_name
from hive_bitmap.spark.metastore import metastore
from hive_bitmap.spark.metastore.protocol import Changes
from hive_bitmap.spark.tasks import distribution
from tests.spark.tasks.in_process import InProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# As the metastore has them of a table that is STORED AS PARQUET.
INPUT_FORMAT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
ADDRESS = {"spark.hadoop.hive.metastore.uris": "thrift://memory:9083"}  # tells it from other metastores
Name = tuple[str, str]  # database and table


class Conf:
    """The settings of a session."""

    def __init__(self) -> None:
        self.getAll: dict[str, str] = {"spark.sql.catalogImplementation": "hive", **ADDRESS}

    def get(self, name: str, default: str | None = None) -> str | None:
        return self.getAll.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.getAll[name] = value

    def unset(self, name: str) -> None:
        self.getAll.pop(name, None)


class Current:
    """The current catalog and database of a session."""

    def __init__(self, database: str) -> None:
        self._database = database

    def currentCatalog(self) -> str:  # noqa: N802 - as in PySpark
        return SESSION_CATALOG

    def currentDatabase(self) -> str:  # noqa: N802
        return self._database

    def setCurrentDatabase(self, database: str) -> None:  # noqa: N802
        self._database = database


class MemorySession:
    """A session: its settings, its current database and its user. Whatever else needs Spark raises AttributeError."""

    def __init__(self, of: MemoryMetastore, user: str, database: str) -> None:
        self.metastore, self.user = of, user
        self.conf, self.catalog = Conf(), Current(database)


class MemoryMetastore:
    """The `Metastore` of the sessions that it has made; its databases lie in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._databases: dict[str, dict[str, Table]] = {}
        self._partitions: dict[Name, dict[Values, Partition]] = {}
        self._lock = RLock()
        self.comments: dict[Name, str] = {}
        self.batches: list[Changes] = []  # all that were carried out

    def session(self, user: str = "ann", database: str = "db") -> SparkSession:
        """Return a new session, and create its database if need be."""
        made: Any = MemorySession(self, user, database)
        self.create_database(database)
        return made

    def create_database(self, database: str) -> None:
        with self._lock:
            self._databases.setdefault(database, {})
        (self._folder / f"{database}.db").mkdir(parents=True, exist_ok=True)

    def available(self, spark: SparkSession) -> bool:
        return isinstance(spark, MemorySession) and spark.metastore is self

    def database_names(self, spark: SparkSession) -> list[str]:
        return sorted(self._databases)

    def database_exists(self, spark: SparkSession, database: str) -> bool:
        return database in self._databases

    def database_folder(self, spark: SparkSession, database: str) -> str:
        if database not in self._databases:
            raise AnalysisException(f"[SCHEMA_NOT_FOUND] {database}")
        return (self._folder / f"{database}.db").as_uri()

    def describe(self, spark: SparkSession, database: str, names: Sequence[str], view: str) -> list[Table]:
        with self._lock:
            tables = self._databases.get(database, {})
            return [tables[name] for name in names if name in tables]

    def names_like(self, spark: SparkSession, database: str, pattern: str) -> list[str]:
        wanted = re.compile(".*".join(map(re.escape, pattern.split("*"))))
        with self._lock:
            return sorted(name for name in self._databases.get(database, {}) if wanted.fullmatch(name))

    def partitions(self, spark: SparkSession, table: Table, values: Sequence[Values] | None = None) -> list[Partition]:
        names = [column.name for column in table.partition_columns]
        with self._lock:
            self._stored(table)
            every = self._partitions.get((table.database, table.name), {}).values()
            found = [partition for partition in every if values is None or partition.values in values]
            return sorted(found, key=lambda partition: partition_name(names, partition.values))

    def create_table(self, spark: SparkSession, table: Table) -> bool:
        user: Any = spark
        properties = dict(table.properties)
        comment = properties.pop("comment", "")
        stored = {"input_format": INPUT_FORMAT, "serde": SERDE} if table.provider == "hive" else {}
        with self._lock:
            if table.database not in self._databases:
                raise AnalysisException(f"[SCHEMA_NOT_FOUND] {table.database}")
            if table.name in self._databases[table.database]:
                return False
            made = replace(table, properties=properties, owner=table.owner or user.user, **stored)
            self._databases[table.database][table.name] = made
            self.comments[table.database, table.name] = comment
            self._partitions[table.database, table.name] = {}
        return True

    def drop_table(self, spark: SparkSession, name: str, *, if_exists: bool, purge: bool) -> None:
        _, database, table = metastore.split_name(spark, name)
        with self._lock:
            if self._databases.get(database, {}).pop(table, None) is None and not if_exists:
                raise AnalysisException(f"[TABLE_OR_VIEW_NOT_FOUND] {name}")
            self._partitions.pop((database, table), None)
            self.comments.pop((database, table), None)

    def drop_database(self, spark: SparkSession, database: str, *, if_exists: bool) -> None:
        with self._lock:
            if self._databases.pop(database, None) is None and not if_exists:
                raise AnalysisException(f"[SCHEMA_NOT_FOUND] {database}")
            for kept in (self._partitions, self.comments):
                for name in [name for name in kept if name[0] == database]:
                    del kept[name]  # type: ignore[attr-defined]

    def rename_table(self, spark: SparkSession, table: Table, name: str) -> None:
        with self._lock:
            tables, old, new = self._databases[table.database], (table.database, table.name), (table.database, name)
            if name in tables:
                raise AnalysisException(f"[TABLE_OR_VIEW_ALREADY_EXISTS] {name}")
            tables[name] = replace(self._stored(table), name=name)
            del tables[table.name]
            self._partitions[new] = self._partitions.pop(old)
            self.comments[new] = self.comments.pop(old)

    def set_properties(
        self, spark: SparkSession, table: Table, properties: Mapping[str, str], unset: Collection[str]
    ) -> None:
        with self._lock:
            stored = {**self._stored(table).properties, **properties}
            self.comments[table.database, table.name] = stored.pop("comment", self.comments[table.database, table.name])
            gone = {name for name in unset if name in table.properties}
            self._put(table, properties={name: value for name, value in stored.items() if name not in gone})

    def change(self, spark: SparkSession, table: Table, changes: Changes) -> bool:
        with self._lock:
            self.batches.append(changes)
            if not table.partition_columns:
                if changes.moved:
                    self._put(table, location=changes.moved[()])
                return True
            self._stored(table)
            there = self._partitions[table.database, table.name]
            are_new = there.keys().isdisjoint(changes.added)
            for values, folder in changes.added.items():
                there.setdefault(values, Partition(values=values, location=folder))
            for values, partition in there.items():
                there[values] = replace(partition, location=changes.moved.get(values, partition.location))
            return are_new

    def drop_partitions(self, table: Table, dropped: Collection[Values]) -> None:
        with self._lock:
            for values in dropped:
                del self._partitions[table.database, table.name][values]

    def give(self, database: str, name: str, **fields: Any) -> None:
        """Change fields of a table past its owner: as others can, by means of their own."""
        with self._lock:
            self._put(self._databases[database][name], **fields)

    def forget_files(self, spark: SparkSession, table: Table) -> None: ...

    def refresh_files(self, spark: SparkSession, table: Table) -> None: ...

    def is_cached(self, spark: SparkSession, spark_name: str) -> bool:
        return False

    def time_zone(self, spark: SparkSession) -> str:
        return "UTC"

    def default_parallelism(self, spark: SparkSession) -> int:
        return 2

    def current_user(self, spark: SparkSession) -> str:
        user: Any = spark
        return str(user.user)

    def has_foreign_rules(self, spark: SparkSession) -> bool:
        return False

    def _stored(self, table: Table) -> Table:
        found = self._databases.get(table.database, {}).get(table.name)
        if found is None:
            raise AnalysisException(f"[TABLE_OR_VIEW_NOT_FOUND] {table.full_name}")
        return found

    def _put(self, table: Table, **fields: Any) -> None:
        self._databases[table.database][table.name] = replace(self._stored(table), **fields)


@contextmanager
def metastore_in_memory(folder: Path) -> Iterator[MemoryMetastore]:
    """Inside the block, sessions of this metastore are served by it, and their tasks run in this process."""
    made = MemoryMetastore(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(metastore, "METASTORES", (made, *metastore.METASTORES))
        patched.setattr(distribution, "RUNNERS", (InProcess(MemorySession), *distribution.RUNNERS))
        yield made
