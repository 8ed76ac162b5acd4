"""Read tables and partitions from the metastore, through the session; `alter_table` changes them.

Two implementations of one protocol (`protocol.Metastore`) have the same results: `JvmMetastore`, for classic sessions
only, reads and moves many at once through the session's catalog; `SqlMetastore` uses public SQL, which Spark Connect
supports too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from hive_bitmap.core.table_info import SESSION_CATALOG, Partition, Table, hadoop_path, index_table_name, name_parts
from hive_bitmap.errors import NotFound, TableNotFound, Unsupported
from hive_bitmap.spark.metastore import delta_log, iceberg_log, jvm_reader, session_stores
from hive_bitmap.spark.metastore.jvm_metastore import JvmMetastore
from hive_bitmap.spark.metastore.protocol import Metastore
from hive_bitmap.spark.metastore.sql_metastore import SqlMetastore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The first that is available for a session serves it. To add one, write its module and add it here.
METASTORES: Sequence[Metastore] = (JvmMetastore(), SqlMetastore())
GLOBAL_TEMP = "global_temp"  # Spark's database of global temporary views, which is not in the metastore
CATALOG_IMPLEMENTATION = "spark.sql.catalogImplementation"
SESSION_VIEWS = "session"  # from Spark 4.2 on, in place of a database, the name of that of a session's temporary views


def split_name(spark: SparkSession, name: str) -> tuple[str, str, str]:
    """Split `t`, `db.t` or `catalog.db.t` into the (catalog, database, table) that `spark.table` reads.

    The catalog is "" for the session's own. Raises Unsupported if that table is in another one that is not Iceberg's.
    """
    catalog, database, table = name_parts(name)
    catalog = catalog or catalog_of(spark, database)
    if catalog.lower() == SESSION_CATALOG:
        return "", (database or spark.catalog.currentDatabase()).lower(), table.lower()
    if not iceberg_log.is_catalog(spark, catalog):
        raise Unsupported(
            f"table {name} is in catalog {catalog!r}, and only tables of {SESSION_CATALOG} have indexes, and those "
            f"of Iceberg's catalogs: to name one, write {SESSION_CATALOG}.database.table"
        )
    if database == catalog:
        raise Unsupported(f"table {name} is in no database: write {catalog}.database.table")
    return catalog, database or spark.catalog.currentDatabase(), table


def is_indexed_catalog(spark: SparkSession, name: str) -> bool:
    """Return whether tables of another catalog than the session's own may have indexes: one of Iceberg's."""
    return iceberg_log.is_catalog(spark, name)


def hive_problem(spark: SparkSession) -> str:
    """Return why tables of this session end with it, and what to do; "" if a Hive metastore keeps them."""
    implementation = spark.conf.get(CATALOG_IMPLEMENTATION, "in-memory")
    if implementation == "hive":
        return ""
    return (
        f"this session has no Hive metastore to keep indexes in ({CATALOG_IMPLEMENTATION} is {implementation}): create "
        "the session with SparkSession.builder.enableHiveSupport(), in a new process"
    )


def require_hive(spark: SparkSession) -> None:
    """Raise Unsupported if the session has no Hive metastore: indexes would end with it, and their files would stay."""
    if problem := hive_problem(spark):
        raise Unsupported(problem)


def catalog_of(spark: SparkSession, database: str) -> str:
    """Return the catalog in which Spark looks for a table that is named without one.

    That is the current catalog, unless what stands in the place of the database is the name of a catalog.
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
            f"the current catalog is {catalog!r}, and only tables of {SESSION_CATALOG} have indexes: name a table, or "
            f"USE {SESSION_CATALOG}.database"
        )
    return spark.catalog.currentDatabase().lower()


def database_exists(spark: SparkSession, database: str) -> bool:
    """Return whether the session's own catalog has a database, whichever catalog is current."""
    return of(spark).database_exists(spark, database)


def database_names(spark: SparkSession) -> list[str]:
    """Return the databases of the session's own catalog, whichever catalog is current."""
    return of(spark).database_names(spark)


def database_folder(spark: SparkSession, database: str) -> str:
    """Return the folder of a database of the session's own catalog, whichever catalog is current."""
    return hadoop_path(of(spark).database_folder(spark, database))


def describe(spark: SparkSession, name: str) -> Table:
    """Return the table of that name as the session resolves it; raise NotFound, which lists the existing tables."""
    return describe_with(spark, name, lambda database, table: [])[0]


def describe_with(spark: SparkSession, name: str, others: Callable[[str, str], list[str]]) -> tuple[Table, list[Table]]:
    """Return a table, and of the tables of its database that `others(database, table)` names those that exist.

    All are read in one call if the session can.
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
        found = _with_stores(spark).describe(spark, database, [table, *others(database, table)], _view(name))
    except AnalysisException as e:
        if database_exists(spark, database):
            raise
        raise NotFound.of("database", database, database_names(spark)) from e
    for position, candidate in enumerate(found):
        if candidate.name == table:
            described = iceberg_log.described(spark, delta_log.described(spark, candidate))
            return described, found[:position] + found[position + 1 :]
    if (iceberg := iceberg_log.table_of_catalog(spark, "", database, table)) is not None:
        return iceberg, found
    if not database_exists(spark, database):
        raise NotFound.of("database", database, database_names(spark))
    indexes = index_table_name(database, "*", "*")
    tables = [known for known in names_like(spark, database, "*") if not fnmatchcase(known, indexes)]
    raise NotFound.of("table", table, tables, f"database {database}")


def _describe_elsewhere(spark: SparkSession, catalog: str, database: str, table: str) -> Table:
    """Return a table of a catalog of Iceberg's that is not the session's own; raise NotFound."""
    session_stores.use(spark)
    found = iceberg_log.table_of_catalog(spark, catalog, database, table)
    if found is None:
        raise TableNotFound(f"no table {table!r} in {catalog}.{database}")
    return found


def describe_many(spark: SparkSession, database: str, names: Sequence[str]) -> list[Table]:
    """Return those of the tables that exist, read in one call if the session can."""
    return _with_stores(spark).describe(spark, database, names, view="") if names else []


def _view(name: str) -> str:
    """Return the name of a temporary view that Spark would read for a table name, if there is one; "" for none."""
    _, database, table = name_parts(name)
    return "" if database and database.lower() != SESSION_VIEWS else table


def names_like(spark: SparkSession, database: str, pattern: str) -> list[str]:
    """Return the names of the tables of a database that match the pattern, in which `*` stands for any text."""
    return _with_stores(spark).names_like(spark, database, pattern)


def partitions(spark: SparkSession, table: Table) -> list[Partition]:
    """Return all partitions of a partitioned table, in the order of the metastore."""
    return _with_stores(spark).partitions(spark, table)


def table_of(spark: SparkSession, described: Any) -> Table:
    """Convert a `CatalogTable`, an object of the JVM, to a table."""
    session_stores.use(spark)
    return jvm_reader.table_of(spark, described)


def _with_stores(spark: SparkSession) -> Metastore:
    """Return the metastore of this session, and use its store settings: the caller will read the table's files."""
    session_stores.use(spark)
    return of(spark)


def of(spark: SparkSession) -> Metastore:
    """Return the implementation that serves a session."""
    return next(metastore for metastore in METASTORES if metastore.available(spark))


def forget_files(spark: SparkSession, table: Table) -> None:
    """Make the session list the files and read the schema of a table again when it reads it the next time."""
    of(spark).forget_files(spark, table)


def refresh_files(spark: SparkSession, table: Table) -> None:
    """Make the session list the files of a table again.

    On a classic session DataFrames that were made of it before follow, too, as they do after an INSERT of the session;
    `forget_files` would have them keep the files of before for good.
    """
    of(spark).refresh_files(spark, table)


def is_cached(spark: SparkSession, spark_name: str) -> bool:
    """Return whether the rows of a table are cached in the session."""
    return of(spark).is_cached(spark, spark_name)


def time_zone(spark: SparkSession) -> str:
    """Return the default time zone of the JVM, in which Spark interprets ORC timestamps; "" if it is not known."""
    return of(spark).time_zone(spark)


def default_parallelism(spark: SparkSession) -> int:
    """Return how many tasks the cluster runs at once, or a default if that is not known."""
    return of(spark).default_parallelism(spark)


def current_user(spark: SparkSession) -> str:
    """Return the user of the session, to whom the tables belong that it creates."""
    return of(spark).current_user(spark)


def has_foreign_rules(spark: SparkSession) -> bool:
    """Return whether rules that others added to Spark, as authorizers do, may change the session's plans."""
    return of(spark).has_foreign_rules(spark)
