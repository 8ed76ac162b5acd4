"""Tables and partitions as values, as the metastore describes them, and their names in SQL. No session."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from hive_bitmap.columns import Column

if TYPE_CHECKING:
    from pyspark.errors import AnalysisException

Values = tuple[str | None, ...]  # of the partition columns; () for the one state of an unpartitioned table

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
CHAR_TYPE_KEY = "__CHAR_VARCHAR_TYPE_STRING"  # field metadata in which Spark keeps CHAR(n) and VARCHAR(n)
DEFAULT_KEY = "EXISTS_DEFAULT"  # field metadata in which Spark keeps what files without the column are shown to hold


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


def index_table_name(database: str, table: str, index: str) -> str:
    """The name of an index table that was given none, as Hive made it; with `*` for names a pattern of such names."""
    return f"{database}__{table}_{index}__"


def is_unknown_kind(error: AnalysisException) -> bool:
    """Whether a table is of a kind that Spark refuses to look at, as the tables of Hive 2's own indexes are."""
    return "HIVE_TABLE_TYPE" in str(error)


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
