"""Tables and partitions of the metastore as values, and their names in SQL. Nothing here needs a session."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from hive_bitmap.columns import Column

if TYPE_CHECKING:
    from pyspark.errors import AnalysisException

Values = tuple[str | None, ...]  # values of the partition columns; () for an unpartitioned table

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
CHAR_TYPE_KEY = "__CHAR_VARCHAR_TYPE_STRING"  # field metadata in which Spark keeps CHAR(n) and VARCHAR(n)
DEFAULT_KEY = "EXISTS_DEFAULT"  # field metadata in which Spark keeps the value of a column for files that lack it


@dataclass(frozen=True)
class Table:
    """A table or view. Paths are Hadoop path strings; `kind` is MANAGED, EXTERNAL, VIEW or TEMPORARY.

    `declared` is the schema as JSON, including comments. `by_folders` says that Spark finds the partitions by listing
    folders instead of in the metastore.
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
    """A partition: its values in the order of the partition columns (None is NULL), its folder, and how it is read.

    `properties` are those of the partition followed by those of its SerDe.
    """

    values: tuple[str | None, ...]
    location: str
    input_format: str = ""
    serde: str = ""
    properties: tuple[tuple[str, str], ...] = ()


def quote(name: str) -> str:
    """Quote a name as an SQL identifier.

    >>> quote("a `b`")
    '`a ``b```'
    """
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Quote text as an SQL string literal, for sessions whose `spark.sql.parser.escapedStringLiterals` is false.

    >>> literal("it's")
    "'it\\\\'s'"
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def hadoop_path(uri: str) -> str:
    """Return a location URI as Hadoop's `Path.toString()` prints it: decoded, with one slash after `file:`.

    >>> hadoop_path("file:///w/a%20b/")
    'file:/w/a b'
    """
    path = re.sub(r"^file:/+", "file:/", unquote(uri))
    return path.rstrip("/") or path


def index_table_name(database: str, table: str, index: str) -> str:
    """Return the default name of an index table, the same as in Hive; with `*` for names, a pattern of such names."""
    return f"{database}__{table}_{index}__"


def is_unknown_kind(error: AnalysisException) -> bool:
    """Return whether the error is that Spark does not support this kind of table, as the index tables of Hive 2."""
    return "HIVE_TABLE_TYPE" in str(error)


def partition_spec(table: Table, values: Sequence[str | None]) -> str:
    """Return the partition spec in SQL, for ALTER TABLE .. PARTITION: ``(`p`='1', `q`='x')``."""
    pairs = (
        f"{quote(column.name)}={'NULL' if value is None else literal(value)}"
        for column, value in zip(table.partition_columns, values, strict=True)
    )
    return f"({', '.join(pairs)})"


def partition_name(columns: Iterable[str], values: Iterable[str | None]) -> str:
    """Return the display name of a partition.

    >>> partition_name(["year", "month"], ["2013", None])
    'year=2013/month=NULL'
    """
    pairs = zip(columns, values, strict=False)  # not strict: the partition columns of the table may have changed
    return "/".join(f"{column}={'NULL' if value is None else value}" for column, value in pairs)


def error_message(error: Exception) -> str:
    """Return the message of a Spark error, without the query plan and the stack trace of the JVM."""
    return str(error).partition(";\n")[0].partition("\n\nJVM stacktrace")[0].strip()


def columns_of(schema: Mapping[str, Any]) -> list[Column]:
    """Return the columns of a Spark schema in JSON form, with the types CHAR and VARCHAR restored."""
    from pyspark.sql.types import StructType

    return [
        Column(f.name, f.metadata.get(CHAR_TYPE_KEY) or f.dataType.simpleString(), DEFAULT_KEY in f.metadata)
        for f in StructType.fromJson(dict(schema)).fields
    ]
