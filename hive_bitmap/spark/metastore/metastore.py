"""Read tables and partitions from the metastore, through the session.

`alter_table` changes tables and partitions. Two implementations of one protocol (`protocol.Metastore`) have the same
results. `JvmMetastore`, for classic sessions only, reads and moves many tables or partitions at once through the
session's catalog. `SqlMetastore` uses public SQL, which Spark Connect supports too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from hive_bitmap.core.table_info import (
    SESSION_CATALOG,
    Partition,
    Table,
    Values,
    hadoop_path,
    index_table_name,
    name_parts,
)
from hive_bitmap.errors import NotFound, TableNotFound, Unsupported
from hive_bitmap.spark.metastore import jvm_reader, lake_tables, session_settings
from hive_bitmap.spark.metastore.jvm_metastore import JvmMetastore
from hive_bitmap.spark.metastore.protocol import Metastore
from hive_bitmap.spark.metastore.sql_metastore import SqlMetastore

if TYPE_CHECKING:  # mypy checks that both modules implement the protocol
    from pyspark.sql import SparkSession

    from hive_bitmap.spark.metastore import delta_log, iceberg_log

    _LOGS: tuple[lake_tables.Log, ...] = (delta_log, iceberg_log)

# A session uses the first one that is available. To add one, write its module and add it here.
METASTORES: Sequence[Metastore] = (JvmMetastore(), SqlMetastore())
GLOBAL_TEMP = "global_temp"  # Spark's database of global temporary views, which is not in the metastore
CATALOG_IMPLEMENTATION = "spark.sql.catalogImplementation"
SESSION_VIEWS = "session"  # Spark 4.2 and later use this name in place of a database for a session's temporary views


def split_name(spark: SparkSession, name: str) -> tuple[str, str, str]:
    """Split a table's name into (catalog, database, table).

    The name has the form `t`, `db.t` or `catalog.db.t`, and the result is the table that `spark.table` reads for this
    name. The catalog is "" for the session catalog. Raises Unsupported if the table is in another catalog that is not
    one of Iceberg's, or if the name has such a catalog but no database.
    """
    catalog, database, table = name_parts(name)
    catalog = catalog or catalog_of(spark, database)
    if catalog.lower() == SESSION_CATALOG:
        return "", (database or spark.catalog.currentDatabase()).lower(), table.lower()
    if not lake_tables.is_iceberg_catalog(spark, catalog):
        raise Unsupported(
            f"table {name} is in catalog {catalog!r}, but only tables of {SESSION_CATALOG} and of Iceberg's catalogs "
            f"have indexes: to name one, write {SESSION_CATALOG}.database.table"
        )
    if database == catalog:
        raise Unsupported(f"table {name} is in no database: write {catalog}.database.table")
    return catalog, database or spark.catalog.currentDatabase(), table


def is_indexed_catalog(spark: SparkSession, name: str) -> bool:
    """Return whether a catalog is an Iceberg catalog, whose tables may have indexes.

    `name` must not be the name of the session catalog.
    """
    return lake_tables.is_iceberg_catalog(spark, name)


def hive_problem(spark: SparkSession) -> str:
    """Return a message if the session has no Hive metastore; "" if it has one.

    The message also says what to do.
    """
    implementation = spark.conf.get(CATALOG_IMPLEMENTATION, "in-memory")
    if implementation == "hive":
        return ""
    return (
        f"this session has no Hive metastore to keep indexes in ({CATALOG_IMPLEMENTATION} is {implementation}): create "
        "the session with SparkSession.builder.enableHiveSupport(), in a new process"
    )


def require_hive(spark: SparkSession) -> None:
    """Raise Unsupported if the session has no Hive metastore.

    Without a Hive metastore, indexes would end with the session, but their files would stay.
    """
    if problem := hive_problem(spark):
        raise Unsupported(problem)


def catalog_of(spark: SparkSession, database: str) -> str:
    """Return the catalog where Spark looks for a table whose name has no catalog.

    `database` is the part of the name before the table; "" if there is none. If a catalog has the same name as
    `database`, Spark looks in that catalog; otherwise in the current catalog. Global temporary views are always in the
    session catalog.
    """
    if database.lower() == GLOBAL_TEMP:
        return SESSION_CATALOG
    if database and spark.conf.get(f"spark.sql.catalog.{database}", None) is not None:
        return database
    return spark.catalog.currentCatalog()


def current_database(spark: SparkSession) -> str:
    """Return the current database; raise Unsupported if another catalog is current."""
    catalog = spark.catalog.currentCatalog()
    if catalog.lower() != SESSION_CATALOG:
        raise Unsupported(
            f"the current catalog is {catalog!r}, but only tables of {SESSION_CATALOG} have indexes: name a table, or "
            f"USE {SESSION_CATALOG}.database"
        )
    return spark.catalog.currentDatabase().lower()


def database_exists(spark: SparkSession, database: str) -> bool:
    """Return whether the session catalog has a database.

    The current catalog does not matter.
    """
    return of(spark).database_exists(spark, database)


def database_names(spark: SparkSession) -> list[str]:
    """Return the databases of the session catalog.

    The current catalog does not matter.
    """
    return of(spark).database_names(spark)


def database_folder(spark: SparkSession, database: str) -> str:
    """Return the folder of a database of the session catalog.

    The current catalog does not matter.
    """
    return hadoop_path(of(spark).database_folder(spark, database))


def describe(spark: SparkSession, name: str) -> Table:
    """Return the table that a name means in the session.

    Raise NotFound if there is no such table; the message lists the existing tables.
    """
    return describe_with(spark, name, lambda database, table: [])[0]


def describe_with(spark: SparkSession, name: str, others: Callable[[str, str], list[str]]) -> tuple[Table, list[Table]]:
    """Return a table and other tables of its database.

    `others(database, table)` returns the names of the other tables; missing tables are left out. For a table of another
    catalog, the other tables are in the database of the same name in the session catalog. If the session can describe
    many tables in one call, one call describes all of them. Raises NotFound, as `describe` does.
    """
    from pyspark.errors import AnalysisException

    catalog, database, table = split_name(spark, name)
    if catalog:
        return _describe_elsewhere(spark, catalog, database, table), describe_many(
            spark, database, others(database, table) if database_exists(spark, database) else []
        )
    if database == GLOBAL_TEMP:
        if spark.catalog.tableExists(name):
            return Table(database=database, name=table, kind="TEMPORARY"), []
        raise TableNotFound(f"no global temporary view {table!r}")
    try:
        described_tables = _with_stores(spark).describe(spark, database, [table, *others(database, table)], _view(name))
    except AnalysisException as e:
        if database_exists(spark, database):
            raise
        raise NotFound.of("database", database, database_names(spark)) from e
    for position, candidate in enumerate(described_tables):
        if candidate.name == table:
            kind = lake_tables.kind_of(candidate)
            described = lake_tables.log_of(kind).described(spark, candidate) if kind else candidate
            return described, described_tables[:position] + described_tables[position + 1 :]
    if (iceberg := _table_of_iceberg(spark, "", database, table)) is not None:
        return iceberg, described_tables
    if not database_exists(spark, database):
        raise NotFound.of("database", database, database_names(spark))
    indexes = index_table_name(database, "*", "*")
    tables = [existing for existing in names_like(spark, database, "*") if not fnmatchcase(existing, indexes)]
    raise NotFound.of("table", table, tables, f"database {database}")


def _describe_elsewhere(spark: SparkSession, catalog: str, database: str, table: str) -> Table:
    """Return a table of an Iceberg catalog other than the session catalog.

    Raise NotFound if the table does not exist.
    """
    session_settings.use_stores(spark)
    table_ = _table_of_iceberg(spark, catalog, database, table)
    if table_ is None:
        raise TableNotFound(f"no table {table!r} in {catalog}.{database}")
    return table_


def _table_of_iceberg(spark: SparkSession, catalog: str, database: str, table: str) -> Table | None:
    from hive_bitmap.spark.metastore import iceberg_log

    return iceberg_log.table_of_catalog(spark, catalog, database, table)


def describe_many(spark: SparkSession, database: str, names: Sequence[str]) -> list[Table]:
    """Return the existing tables among these names.

    If the session can describe many tables in one call, one call describes all of them.
    """
    return _with_stores(spark).describe(spark, database, names, view="") if names else []


def _view(name: str) -> str:
    """Return the name of a temporary view that would hide the table `name`.

    Return "" if no temporary view can have this name.
    """
    _, database, table = name_parts(name)
    return "" if database and database.lower() != SESSION_VIEWS else table


def names_like(spark: SparkSession, database: str, pattern: str) -> list[str]:
    """Return the names of tables that match a pattern; `*` matches any text."""
    return _with_stores(spark).names_like(spark, database, pattern)


def partitions(spark: SparkSession, table: Table, values: Sequence[Values] | None = None) -> list[Partition]:
    """Return the partitions of a partitioned table, in the order of the metastore.

    With `values`, return only the existing partitions with these values. This is faster if the table has many other
    partitions.
    """
    return _with_stores(spark).partitions(spark, table, values)


def table_of(spark: SparkSession, described: Any) -> Table:
    """Convert a `CatalogTable`, an object of the JVM, to a table."""
    session_settings.use_stores(spark)
    return jvm_reader.table_of(spark, described)


def _with_stores(spark: SparkSession) -> Metastore:
    """Return a session's metastore, and use the session's store settings from now on.

    The store settings are needed because callers read the files of the tables that they look up.
    """
    session_settings.use_stores(spark)
    return of(spark)


def of(spark: SparkSession) -> Metastore:
    """Return the `Metastore` implementation that serves a session."""
    return next(metastore for metastore in METASTORES if metastore.available(spark))


def forget_files(spark: SparkSession, table: Table) -> None:
    """Drop the session's cached files and schema of a table.

    The next read lists the files and reads the schema again.
    """
    of(spark).forget_files(spark, table)


def refresh_files(spark: SparkSession, table: Table) -> None:
    """Make the session list the files of a table again.

    In a classic session, existing DataFrames of the table also read the new files, as after an INSERT of the session.
    After `forget_files`, existing DataFrames would keep reading the earlier files.
    """
    of(spark).refresh_files(spark, table)


def is_cached(spark: SparkSession, spark_name: str) -> bool:
    """Return whether the rows of a table are cached in the session."""
    return of(spark).is_cached(spark, spark_name)


def time_zone(spark: SparkSession) -> str:
    """Return the JVM's default time zone; "" if unknown.

    Spark reads ORC timestamps in this time zone.
    """
    return of(spark).time_zone(spark)


def default_parallelism(spark: SparkSession) -> int:
    """Return how many tasks the cluster runs at once.

    Return a default if the number is unknown.
    """
    return of(spark).default_parallelism(spark)


def current_user(spark: SparkSession) -> str:
    """Return the user of the session, who owns the tables that the session creates."""
    return of(spark).current_user(spark)


def has_foreign_rules(spark: SparkSession) -> bool:
    """Return whether rules of other programs may change the session's plans.

    Other programs, such as authorizers, have added these rules to Spark.
    """
    return of(spark).has_foreign_rules(spark)
