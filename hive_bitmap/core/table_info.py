"""Describe tables and partitions of the metastore, and quote their names.

`Table` and `Partition` describe what the metastore has. The functions convert and quote names, partition values,
string constants and paths. Nothing in this module needs a session.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from hive_bitmap.core.columns import Column, KeyExpression
from hive_bitmap.core.memory_budget import bytes_of_texts
from hive_bitmap.core.predicates.tokens import Token, tokenize
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.errors import InvalidPredicate, NotFound, TableNotFound, Unsupported

Values = tuple[str | None, ...]  # values of the partition columns; () for an unpartitioned table

COLUMN_BYTES = 400  # memory of a Column, with its texts
SESSION_CATALOG = "spark_catalog"  # Spark's name of the session's own catalog
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
VARIABLE = "${"  # begins a reference to a setting or an environment variable, which Spark and Hive replace in SQL


DELTA, ICEBERG = "delta", "iceberg"  # kinds of `Lake`, and providers of tables


@dataclass(frozen=True)
class Lake:
    """The facts about a table with a log (Delta or Iceberg).

    The log lists the files of the table. `kind` is `delta` or `iceberg`. `partitioned_by` are the columns whose values
    readers take from the log instead of the files. `problem` says why the table cannot have indexes; "" if the table
    can have indexes. `format` is the format of the files. `past` says whether this is an older version of the table, or
    a version on another branch.
    """

    kind: str
    partitioned_by: tuple[str, ...] = ()
    problem: str = ""
    format: str = "parquet"
    past: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table or view.

    Paths are Hadoop path strings. `kind` is MANAGED, EXTERNAL, VIEW or TEMPORARY. `catalog` is Spark's name of the
    table's catalog; "" for the session's own catalog. `declared` is the schema as JSON, including comments. With
    `by_folders`, Spark finds the partitions by listing folders, not in the metastore. `owner` is the owner in the
    metastore; "" if the metastore records no owner. If `lake` is set, `columns` has all columns in the log, including
    the partition columns. `computed` has the expressions for which a query uses keys of indexes.
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
    owner: str = ""
    lake: Lake | None = None
    catalog: str = ""
    computed: tuple[KeyExpression, ...] = ()

    @property
    def keyed_columns(self) -> tuple[Column, ...]:
        """The columns by which rows can be counted.

        The result has the `columns`, and the columns of the `computed` keys.
        """
        return (*self.columns, *(expression.key for expression in self.computed))

    def data_keys(self, keys: Sequence[str]) -> list[str]:
        """Return the names among `keys` that are `keyed_columns`, in lower case and in the same order.

        Partition columns are left out.
        """
        columns = {column.name.lower() for column in self.keyed_columns}
        return [key.lower() for key in keys if key.lower() in columns]

    @property
    def full_name(self) -> str:
        return full_name(self.catalog, self.database, self.name)

    @property
    def nbytes(self) -> int:
        """The estimated bytes in memory."""
        columns = COLUMN_BYTES * (len(self.columns) + len(self.partition_columns))
        return columns + len(self.declared) + bytes_of_texts(self.properties) + bytes_of_texts(self.options)

    def by_partitions(self) -> Table:
        """Return this Delta or Iceberg table with its partition columns set.

        Readers take the values of the partition columns from the log (`Lake.partitioned_by`). All other columns stay in
        `columns`. A table without a log gets no partition columns.
        """
        names = () if self.lake is None else self.lake.partitioned_by
        partitioning = {column.name: column for column in self.columns if column.name in names}
        columns = tuple(column for column in self.columns if column.name not in partitioning)
        return replace(self, columns=columns, partition_columns=tuple(partitioning[name] for name in names))

    @property
    def sql_name(self) -> str:
        """The name in Hive's SQL and in texts for people."""
        return f"{quote(self.database)}.{quote(self.name)}"

    @property
    def spark_name(self) -> str:
        """The name in Spark's SQL, independent of the current catalog."""
        return in_spark(self.database, self.name, catalog=self.catalog)


@dataclass(frozen=True, kw_only=True)
class Partition:
    """A partition: its values, its folder, and the properties for reading it.

    The values are in the order of the partition columns (None is NULL). `properties` has the properties of the
    partition, then the properties of its SerDe. `files` has the files of a partition of a Delta or Iceberg table. If
    `files` is None, the files are in the folder.
    """

    values: tuple[str | None, ...]
    location: str
    input_format: str = ""
    serde: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    files: tuple[FileStatus, ...] | None = None


def quote(name: str) -> str:
    """Quote a name as an SQL identifier.

    Raises Unsupported for a name with `${`: Spark and Hive replace `${..}` by the value of a variable, even between
    quotes.

    >>> quote("a `b`")
    '`a ``b```'
    """
    if VARIABLE in name:
        raise Unsupported(f"name {name!r} contains {VARIABLE}, which begins a variable in SQL: rename it")
    return "`" + name.replace("`", "``") + "`"


def name_parts(text: str) -> tuple[str, str, str]:
    """Split a table name into catalog, database and table, as Spark does.

    A missing part is "". Raises NotFound if the name is malformed.

    >>> name_parts("db.`a table`"), name_parts("t")
    (('', 'db', 'a table'), ('', '', 't'))
    """
    try:
        text.encode()  # text that is not valid Unicode would fail in the JVM
        tokens = tokenize(text)
    except (UnicodeEncodeError, InvalidPredicate):
        tokens = []
    parts = [_identifier(token) for token in tokens[::2]]
    dotted = len(tokens) % 2 == 1 and all(token.text == "." for token in tokens[1::2])
    if not dotted or len(parts) > 3 or not all(parts):
        raise TableNotFound(f"{text!r} is not a table name: use table or database.table")
    catalog, database, name = ["", "", *parts][-3:]
    return catalog, database, name


def _identifier(token: Token) -> str:
    """Return the name in a token; "" for other tokens."""
    return token.name if token.text[0] == "`" or (token.kind in ("word", "name") and token.text.isascii()) else ""


def full_name(catalog: str, database: str, name: str) -> str:
    """Join the parts of a table's name with dots.

    `catalog` is "" for the session's own catalog, and is then left out.

    >>> full_name("", "db", "t"), full_name("lake", "db", "t")
    ('db.t', 'lake.db.t')
    """
    return ".".join(filter(None, (catalog, database, name)))


def for_people(name: str) -> str:
    """Convert a table name of Spark's SQL to its `full_name`; return other texts unchanged.

    >>> for_people("spark_catalog.`db`.`t`"), for_people("lake.db.t"), for_people("t"), for_people("a b")
    ('db.t', 'lake.db.t', 't', 'a b')
    """
    try:
        catalog, database, table = name_parts(name)
    except NotFound:
        return name
    return full_name("" if catalog == SESSION_CATALOG else catalog, database, table)


def in_spark(database: str, *names: str, catalog: str = "") -> str:
    """Return the name of a database or table in Spark's SQL, with its catalog.

    `names` has the name of the table, or is empty for a database. If `catalog` is "", the catalog is the session's own.

    >>> in_spark("db", "t")
    'spark_catalog.`db`.`t`'
    """
    return ".".join((quote(catalog) if catalog else SESSION_CATALOG, *map(quote, (database, *names))))


def literal(text: str) -> str:
    """Quote text as an SQL string literal with escapes.

    Spark and Hive do not replace variables in the result. Use this function for LOCATION, COMMENT, LIKE of SHOW,
    TBLPROPERTIES, and for Hive. With `spark.sql.parser.escapedStringLiterals`, Spark does not resolve escapes in
    partition specs and expressions: see `partition_spec` and `string_expression`.

    >>> literal("it's"), literal("${env:HOME}")
    ("'it\\\\'s'", "'$\\\\{env:HOME}'")
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace(VARIABLE, "$\\{")
    return f"'{escaped}'"


def string_expression(text: str) -> str:
    """Return an SQL expression that Spark always evaluates to this string.

    The settings of Spark's parser do not matter.

    >>> string_expression("a b"), string_expression("it's")
    ("'a b'", "CAST(X'69742773' AS STRING)")
    """
    written = constant(text)
    return written if written[0] == "'" else f"CAST({written} AS STRING)"


def constant(text: str) -> str:
    """Return the text as a constant of Spark's SQL without escapes.

    The constant is in quotes, or written as hexadecimal bytes.

    >>> constant("a b"), constant("it's"), constant("${a}")
    ("'a b'", "X'69742773'", "X'247b617d'")
    """
    plain = not any(special in text for special in ("'", "\\", VARIABLE))
    return f"'{text}'" if plain else f"X'{text.encode().hex()}'"


def raw_hadoop_path(text: str, default: str = "file:///") -> str:
    """Return a path as Hadoop's `Path.toString()` prints it.

    The path is not a URI: % stands for itself. A path without a scheme is on the `default` file system.

    >>> raw_hadoop_path("file:///w//a%20b/"), raw_hadoop_path("/w/x"), raw_hadoop_path("/w/x", "hdfs://nn:8020")
    ('file:/w/a%20b', 'file:/w/x', 'hdfs://nn:8020/w/x')
    """
    match = re.fullmatch(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/]*))?(.*)", text, re.DOTALL)
    assert match is not None  # the last group takes everything
    scheme, authority, path = match[1], match[2], re.sub("/+", "/", match[3])
    if scheme is None:
        return raw_hadoop_path(default.rstrip("/") + path if path != "/" else default, default)
    home = f"{scheme}://{authority}" if authority else f"{scheme}:"
    return home + (path.rstrip("/") or path)


def hadoop_path(uri: str) -> str:
    """Return a location URI as Hadoop's `Path.toString()` prints it.

    The path is decoded, and has one slash after `file:`.

    >>> hadoop_path("file:///w/a%20b/")
    'file:/w/a b'
    """
    path = re.sub(r"^file:/+", "file:/", unquote(uri))
    return path if path.endswith(":/") else path.rstrip("/") or path


def index_table_name(database: str, table: str, index: str) -> str:
    """Return the default name of an index table, as in Hive.

    If an argument is `*`, the result is a pattern that matches the default names for all values of this argument.
    """
    return f"{database}__{table}_{index}__"


def partition_spec(table: Table, values: Sequence[str | None]) -> str:
    """Return the partition spec for ALTER TABLE .. PARTITION in Spark's SQL.

    An example is ``(`p`='1', `q`='x')``. Spark casts the constants in a partition spec to strings, so a value with
    quotes or backslashes is written as bytes, without escapes. The session needs the settings of
    `session_settings.verbatim_partitions`. See `visitStringConstant` in
    https://github.com/apache/spark/blob/v4.0.0/sql/catalyst/src/main/scala/org/apache/spark/sql/catalyst/parser/AstBuilder.scala.
    """
    pairs = (
        f"{quote(column.name)}={'NULL' if value is None else constant(value)}"
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
    """Return the message of a Spark error.

    The query plan and the stack trace of the JVM are left out.
    """
    return str(error).partition(";\n")[0].partition("\n\nJVM stacktrace")[0].strip()
