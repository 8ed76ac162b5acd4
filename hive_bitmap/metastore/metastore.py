"""What the metastore says of tables and partitions, read through the session.

Two readers give the same values: one asks the session's catalog for many tables at once (`jvm_reader`, classic
sessions only), the other reads `DESCRIBE .. AS JSON`, public SQL that Spark Connect has too. All changes are SQL.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import sqlglot
from sqlglot import exp

from hive_bitmap.columns import Column
from hive_bitmap.errors import NotFound, Unsupported

if TYPE_CHECKING:
    from pyspark.errors import AnalysisException
    from pyspark.sql import SparkSession

NAMES_REMEMBERED = 1024
OURS = "/* hive_bitmap */"  # before a DROP of our own, which the extension's parser passes on as it is
SKIP_VALIDATION = "spark.sql.legacy.skipTypeValidationOnAlterPartition"
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
CHAR_TYPE_KEY = "__CHAR_VARCHAR_TYPE_STRING"  # field metadata in which Spark keeps CHAR(n) and VARCHAR(n)

DEFAULT_KEY = "EXISTS_DEFAULT"  # field metadata in which Spark keeps what files without the column are shown to hold
OF_SESSIONS = "global_temp"  # Spark's database of global temporary views, which no metastore knows


@dataclass(frozen=True)
class Table:
    """A table or view. Paths are Hadoop path strings; `kind` is MANAGED, EXTERNAL, VIEW or TEMPORARY.

    `declared` is the JSON of its schema, comments too. `by_folders` if Spark takes its partitions from its folders.
    """

    database: str
    name: str
    kind: str
    provider: str = ""
    columns: tuple[Column, ...] = ()
    partition_columns: tuple[Column, ...] = ()
    location: str = ""
    input_format: str = ""
    serde: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    declared: str = ""
    by_folders: bool = False

    @property
    def full_name(self) -> str:
        return f"{self.database}.{self.name}"

    @property
    def sql_name(self) -> str:
        return f"{quote(self.database)}.{quote(self.name)}"


@dataclass(frozen=True)
class Partition:
    """One partition: its values in the order of the partition columns (None is SQL's NULL), its folder, and how its
    files are read: the SerDe's properties and its own.
    """

    values: tuple[str | None, ...]
    location: str
    input_format: str = ""
    serde: str = ""
    properties: tuple[tuple[str, str], ...] = ()


def quote(name: str) -> str:
    """A name as an SQL identifier.

    >>> quote("a `b`")
    '`a ``b```'
    """
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Text as an SQL string literal that reads the same whatever `escapedStringLiterals` says of other backslashes.

    >>> literal("it's")
    "'it\\\\'s'"
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def hadoop_path(uri: str) -> str:
    """A location URI as Hadoop's `Path.toString()` prints it: decoded, one slash after `file:`.

    >>> hadoop_path("file:///w/a%20b/")
    'file:/w/a b'
    """
    path = re.sub(r"^file:/+", "file:/", unquote(uri))
    return path.rstrip("/") or path


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
        found: list[Table] = _reader(spark).describe(spark, database, [table, *others(database, table)], "." in name)
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


def index_table_name(database: str, table: str, index: str) -> str:
    """The name of an index table that was given none, as Hive made it; with `*` for names a pattern of such names."""
    return f"{database}__{table}_{index}__"


def is_unknown_kind(error: AnalysisException) -> bool:
    """Whether a table is of a kind that Spark refuses to look at, as the tables of Hive 2's own indexes are."""
    return "HIVE_TABLE_TYPE" in str(error)


def names_like(spark: SparkSession, database: str, pattern: str) -> list[str]:
    """The names of the tables of a database that match; `*` stands for anything."""
    return _reader(spark).names_like(spark, database, pattern)


def partitions(spark: SparkSession, table: Table) -> list[Partition]:
    """All partitions of a partitioned table, in the metastore's order."""
    return _reader(spark).partitions(spark, table)


@contextmanager
def verbatim_partitions(spark: SparkSession) -> Iterator[None]:
    """For statements that name partitions by `partition_spec`: by itself Spark takes `01` of an int column for `1`."""
    before = settings(spark).get(SKIP_VALIDATION)
    spark.conf.set(SKIP_VALIDATION, "true")
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(SKIP_VALIDATION)
        else:
            spark.conf.set(SKIP_VALIDATION, before)


def partition_spec(table: Table, values: Sequence[str | None]) -> str:
    """`(p=1, q='x')` for ALTER TABLE .. PARTITION."""
    pairs = (
        f"{quote(column.name)}={'NULL' if value is None else literal(value)}"
        for column, value in zip(table.partition_columns, values, strict=True)
    )
    return f"({', '.join(pairs)})"


def partition_name(columns: Iterable[str], values: Iterable[str | None]) -> str:
    """What people call a partition.

    >>> partition_name(["year", "month"], ["2013", None])
    'year=2013/month=NULL'
    """
    pairs = zip(columns, values, strict=False)  # a table that is partitioned in another way now has other values
    return "/".join(f"{column}={'NULL' if value is None else value}" for column, value in pairs)


def refusal(error: Exception) -> str:
    """What Spark says against a statement, without its plan and the stack of the JVM."""
    return str(error).partition(";\n")[0].partition("\n\nJVM stacktrace")[0].strip()


def columns_of(schema: Mapping[str, Any]) -> list[Column]:
    """Columns of a Spark schema in its JSON form, CHAR and VARCHAR restored."""
    from pyspark.sql.types import StructType

    return [
        Column(f.name, f.metadata.get(CHAR_TYPE_KEY) or f.dataType.simpleString(), DEFAULT_KEY in f.metadata)
        for f in StructType.fromJson(dict(schema)).fields
    ]


def _reader(spark: SparkSession) -> Any:
    """Whoever asks for a table, or what it has, will look at its files: as this session reaches them."""
    from hive_bitmap.metastore import jvm_reader, session_stores

    session_stores.use(spark)
    return jvm_reader if jvm_reader.available(spark) else _Sql


class _Sql:
    """The reader for sessions without a JVM at hand: a statement a table or partition."""

    @staticmethod
    def describe(spark: SparkSession, database: str, names: Sequence[str], qualified: bool) -> list[Table]:
        from pyspark.errors import AnalysisException

        found = []
        for name in names:
            try:
                if _Sql.exists(spark, database, name):
                    found.append(_Sql.describe_one(spark, database, name, qualified))
            except AnalysisException as e:
                if not is_unknown_kind(e):
                    raise
        return found

    @staticmethod
    def exists(spark: SparkSession, database: str, name: str) -> bool:
        return spark.catalog.tableExists(f"{quote(database)}.{quote(name)}") or spark.catalog.tableExists(quote(name))

    @staticmethod
    def describe_one(spark: SparkSession, database: str, name: str, qualified: bool) -> Table:
        sql_name = f"{quote(database)}.{quote(name)}"
        if not qualified and spark.catalog.getTable(quote(name)).isTemporary:
            return Table(database, name, "TEMPORARY")
        info = json.loads(spark.sql(f"DESCRIBE TABLE EXTENDED {sql_name} AS JSON").collect()[0][0])
        declared = spark.table(sql_name).schema.json()
        columns = columns_of(json.loads(declared))
        partition_names = [p.lower() for p in info.get("partition_columns", [])]
        return Table(
            database,
            name,
            info["type"],
            info.get("provider", ""),
            tuple(c for c in columns if c.name.lower() not in partition_names),
            tuple(c for c in columns if c.name.lower() in partition_names),
            re.sub(r"^file:/+", "file:/", info.get("location", "")),
            info.get("input_format", ""),
            info.get("serde_library", ""),
            info.get("table_properties", {}),
            info.get("storage_properties", {}),
            declared,
            info.get("provider", "hive") != "hive" and bool(partition_names) and "partition_provider" not in info,
        )

    @staticmethod
    def names_like(spark: SparkSession, database: str, pattern: str) -> list[str]:
        rows = spark.sql(f"SHOW TABLES IN {quote(database)} LIKE {literal(pattern)}").collect()
        return [row["tableName"] for row in rows if not row["isTemporary"]]

    @staticmethod
    def partitions(spark: SparkSession, table: Table) -> list[Partition]:
        names = spark.sql(f"SHOW PARTITIONS {table.sql_name}").collect()
        with verbatim_partitions(spark):
            return [_Sql.partition(spark, table, name) for (name,) in names]

    @staticmethod
    def partition(spark: SparkSession, table: Table, name: str) -> Partition:
        pairs = [unquote(part.partition("=")[2]) for part in name.split("/")]
        values = tuple(None if value == NULL_PARTITION else value for value in pairs)
        sql = f"DESCRIBE TABLE EXTENDED {table.sql_name} PARTITION {partition_spec(table, values)} AS JSON"
        said = json.loads(spark.sql(sql).collect()[0][0])
        return Partition(
            values,
            re.sub(r"^file:/+", "file:/", said["location"]),
            said.get("input_format", ""),
            said.get("serde_library", ""),
            (*said.get("partition_parameters", {}).items(), *said.get("storage_properties", {}).items()),
        )


def settings(spark: SparkSession) -> Mapping[str, str]:
    """The session's settings that are not left to their defaults."""
    from hive_bitmap.metastore import jvm_reader

    if jvm_reader.available(spark):
        return jvm_reader.settings(spark)
    return with_server_wide(spark.conf.getAll)


def with_server_wide(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings of a session, and those of ours that Spark was started with, behind `spark.`: it drops all others.

    >>> with_server_wide({"spark.hive_bitmap.strategy": "rows"})["hive_bitmap.strategy"]
    'rows'
    """
    begin = "spark.hive_bitmap."
    named = {key.removeprefix("spark."): said for key, said in settings.items() if key.startswith(begin)}
    return {**named, **settings}


def forget_files(spark: SparkSession, table: Table) -> None:
    """Have the session look anew at the files and columns of a table when it reads it the next time."""
    from hive_bitmap.metastore import jvm_reader

    if jvm_reader.available(spark):
        jvm_reader.forget_files(spark, table)
    else:
        spark.catalog.refreshTable(table.sql_name)


def is_cached(spark: SparkSession, sql_name: str) -> bool:
    """Whether the session keeps the rows of a table in its cache."""
    from hive_bitmap.metastore import jvm_reader

    if jvm_reader.available(spark) and jvm_reader.caches_nothing(spark):
        return False
    return spark.catalog.isCached(sql_name)


def time_zone(spark: SparkSession) -> str:
    """The zone of the engine's JVM, in which it reads the timestamps of ORC files; empty where it cannot be asked."""
    from hive_bitmap.metastore import jvm_reader

    return jvm_reader.time_zone(spark) if jvm_reader.available(spark) else ""


def default_parallelism(spark: SparkSession) -> int:
    """How many tasks the cluster runs at once, as far as the session tells."""
    from hive_bitmap.metastore import jvm_reader

    return spark.sparkContext.defaultParallelism if jvm_reader.available(spark) else 8
