"""What the metastore says of tables and partitions, read through the session.

Two readers behind one protocol (`reader`) give the same values: `jvm_reader`, classic sessions only, asks the session's
catalog for many tables at once; `sql_reader` reads `DESCRIBE .. AS JSON`, public SQL that Spark Connect has too. All
changes are SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp

from hive_bitmap.errors import NotFound, Unsupported
from hive_bitmap.metastore import jvm_reader
from hive_bitmap.metastore.reader import Reader
from hive_bitmap.metastore.sql_reader import SqlReader
from hive_bitmap.metastore.table_info import Partition, Table, index_table_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The first that is available reads. A reader more is a module, and its line here.
READERS: Sequence[Reader] = (jvm_reader, SqlReader)
NAMES_REMEMBERED = 1024
OURS = "/* hive_bitmap */"  # before a DROP of our own, which the extension's parser passes on as it is

OF_SESSIONS = "global_temp"  # Spark's database of global temporary views, which no metastore knows


def split_name(spark: SparkSession, name: str) -> tuple[str, str]:
    """(database, table) of `t`, `db.t` or `spark_catalog.db.t`; raises Unsupported for another catalog."""
    table = table_name(name)
    if table.catalog and table.catalog.lower() != "spark_catalog":
        raise Unsupported(f"table {name} is in catalog {table.catalog!r}: only the session's own catalog is indexed")
    return (table.db or spark.catalog.currentDatabase()).lower(), table.name.lower()


@lru_cache(maxsize=NAMES_REMEMBERED)
def table_name(name: str) -> exp.Table:
    """The parts of a table's name; raises NotFound for what is none."""
    try:
        name.encode()
        return exp.to_table(name, dialect="spark")
    except (sqlglot.errors.SqlglotError, ValueError) as e:  # the latter where a name has too many parts, or is no text
        raise NotFound(f"{name!r} is not a table name: use table or database.table") from e


def describe(spark: SparkSession, name: str) -> Table:
    """The table of that name as the session resolves it; raises NotFound with the tables that exist."""
    return describe_with(spark, name, lambda database, table: [])[0]


def describe_with(spark: SparkSession, name: str, others: Callable[[str, str], list[str]]) -> tuple[Table, list[Table]]:
    """A table, and in the same call those other tables of its database that `others(database, table)` names."""
    from pyspark.errors import AnalysisException

    database, table = split_name(spark, name)
    if database == OF_SESSIONS:
        if spark.catalog.tableExists(name):
            return Table(database, table, "TEMPORARY"), []
        raise NotFound(f"no global temporary view {table!r}")
    try:
        found = _reader(spark).describe(spark, database, [table, *others(database, table)], "." in name)
    except AnalysisException as e:
        if spark.catalog.databaseExists(database):
            raise
        raise NotFound.of("database", database, [d.name for d in spark.catalog.listDatabases()]) from e
    for position, candidate in enumerate(found):
        if candidate.name == table:
            return candidate, found[:position] + found[position + 1 :]
    if not spark.catalog.databaseExists(database):
        raise NotFound.of("database", database, [d.name for d in spark.catalog.listDatabases()])
    indexes = index_table_name(database, "*", "*")
    tables = [known for known in names_like(spark, database, "*") if not fnmatchcase(known, indexes)]
    raise NotFound.of("table", table, tables, f"database {database}")


def describe_many(spark: SparkSession, database: str, names: Sequence[str]) -> list[Table]:
    """Those of the tables that exist, in one call where the session can."""
    return _reader(spark).describe(spark, database, names, qualified=True) if names else []


def names_like(spark: SparkSession, database: str, pattern: str) -> list[str]:
    """The names of the tables of a database that match; `*` stands for anything."""
    return _reader(spark).names_like(spark, database, pattern)


def partitions(spark: SparkSession, table: Table) -> list[Partition]:
    """All partitions of a partitioned table, in the metastore's order."""
    return _reader(spark).partitions(spark, table)


def table_of(spark: SparkSession, described: Any) -> Table:
    """A table from its description in Spark's catalog, an object of the JVM (`CatalogTable`)."""
    from hive_bitmap.metastore import session_stores

    session_stores.use(spark)
    return jvm_reader.table_of(spark, described)


def _reader(spark: SparkSession) -> Reader:
    """Whoever asks for a table, or what it has, will look at its files: as this session reaches them."""
    from hive_bitmap.metastore import session_stores

    session_stores.use(spark)
    return _available(spark)


def _available(spark: SparkSession) -> Reader:
    return next(reader for reader in READERS if reader.available(spark))


def forget_files(spark: SparkSession, table: Table) -> None:
    """Have the session look anew at the files and columns of a table when it reads it the next time."""
    _available(spark).forget_files(spark, table)


def is_cached(spark: SparkSession, sql_name: str) -> bool:
    """Whether the session keeps the rows of a table in its cache."""
    return _available(spark).is_cached(spark, sql_name)


def time_zone(spark: SparkSession) -> str:
    """The zone of the engine's JVM, in which it reads the timestamps of ORC files; empty where it cannot be asked."""
    return _available(spark).time_zone(spark)


def default_parallelism(spark: SparkSession) -> int:
    """How many tasks the cluster runs at once, as far as the session tells."""
    return _available(spark).default_parallelism(spark)
