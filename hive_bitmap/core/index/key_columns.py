"""Decide which columns of a table can be keys of an index."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from hive_bitmap.core.bitmaps import ENCODINGS
from hive_bitmap.core.columns import Column, KeyExpression, find
from hive_bitmap.core.table_info import VARIABLE, Table
from hive_bitmap.errors import ColumnNotFound, HiveBitmapError, NotFound, Unsupported

# Columns of every index table, by name
BUCKET_NAME, OFFSET_NAME, OFFSETS_NAME, CARDINALITY_NAME = "_bucketname", "_offset", "_offsets", "_cardinality"
# Metastores reject conditions on a partition column whose name begins with `_`.
SEGMENT_NAME = "hive_bitmap_segment"
KEY_TYPES = (
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal",
    "string",
    "varchar",
    "char",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
)


def require_keys(table: Table, columns: Sequence[str]) -> None:
    """Require that all of these columns can be keys of an index.

    Raises Unsupported if a column cannot be a key; otherwise ColumnNotFound if a column is missing. The error names all
    missing and unsupported columns.
    """
    unknown: list[HiveBitmapError] = []
    refused: list[HiveBitmapError] = []
    for name in dict.fromkeys(columns):
        try:
            _check_key(table, name)
        except NotFound as e:
            unknown.append(e)
        except Unsupported as e:
            refused.append(e)
    if unknown or refused:
        kind = Unsupported if refused else ColumnNotFound
        raise kind("; ".join(map(str, (*refused, *unknown))))


def check_expressions(table: Table, expressions: Sequence[KeyExpression]) -> None:
    """Require that expressions can be keys of an index.

    The names of the expressions must be free, and files must hold the columns that the expressions use. Raise
    Unsupported, and NotFound for a missing column.
    """
    where = f"table {table.full_name}"
    taken = {column.name.lower() for column in (*table.columns, *table.partition_columns)}
    for expression in expressions:
        check_alias(expression, taken, where)
        for column in expression.columns:
            require_stored(table, column.name)
        taken.add(expression.alias)


def check_alias(expression: KeyExpression, taken: Collection[str], where: str) -> None:
    """Require that the name of an expression is valid and free.

    `taken` has names of columns in lower case. `where` names the base table in messages. Raise Unsupported.
    """
    alias = expression.alias
    if alias.lower() in taken:
        raise Unsupported(f"{alias!r} is already a column of {where} or of the index: name {expression.sql} otherwise")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", alias) or alias.startswith("hive_bitmap"):
        raise Unsupported(
            f"{alias!r} cannot name {expression.sql}: such a name has lower-case letters, digits and _, and begins "
            "with a letter, but not with hive_bitmap"
        )
    if expression.name in taken:
        raise Unsupported(f"{where} has a column {expression.name!r}, a name that is reserved: rename it")


def is_reserved(name: str) -> bool:
    """Return whether a column name is reserved for index tables.

    Some of the reserved columns exist only in index tables with a certain type or bitmap encoding. Case is ignored.
    """
    bitmaps = {field.name for encoding in ENCODINGS.values() for field in encoding.FIELDS}
    return name.lower() in {BUCKET_NAME, OFFSET_NAME, OFFSETS_NAME, CARDINALITY_NAME, SEGMENT_NAME, *bitmaps}


def base_type(column: Column) -> str:
    """Return the name of a column's type without length, precision and collation."""
    return column.type.partition("(")[0].partition(" collate ")[0]


def _check_key(table: Table, name: str) -> None:
    """Require that a column can be a key.

    Raise NotFound for a missing column, and Unsupported for a column that cannot be a key.
    """
    where = f"table {table.full_name}"
    column = require_stored(table, name)
    base = base_type(column)
    if table.lake is not None and base == "char":
        home = f"{table.lake.kind} {where}"
        raise Unsupported(f"column {column.name!r} of {home} is {column.type}, which cannot be a key there: use string")
    if is_reserved(column.name):
        raise Unsupported(f"column {column.name!r} of {where} has the name of a column of every index table")
    if column.name.lower().startswith("hive_bitmap"):
        raise Unsupported(f"column {column.name!r} of {where} begins with hive_bitmap, which is reserved: rename it")
    if " collate " in column.type:
        raise Unsupported(f"column {column.name!r} of {where} is {column.type}: collated strings cannot be keys")
    if base not in KEY_TYPES:
        raise Unsupported(f"column {column.name!r} of {where} is {column.type}: keys are {', '.join(KEY_TYPES)}")


def require_stored(table: Table, name: str) -> Column:
    """Return the column of this name, after checking that base files hold its values.

    Raise NotFound for a missing column. Raise Unsupported for partition columns, for columns with a default value
    (which old files do not hold), and for columns whose name contains VARIABLE, because SQL would replace it.
    """
    where = f"table {table.full_name}"
    if name.lower() in (column.name.lower() for column in table.partition_columns):
        raise Unsupported(f"column {name!r} partitions {where}: partitions are pruned without an index")
    column = find(table.columns, name, where)
    if table.lake is not None and column.name in table.lake.partitioned_by:
        home = f"{table.lake.kind} {where}"
        raise Unsupported(f"column {column.name!r} partitions {home}: its files are pruned without an index")
    if VARIABLE in column.name:
        raise Unsupported(f"column {column.name!r} of {where} contains {VARIABLE}, which begins a variable in SQL")
    if column.default:
        raise Unsupported(f"column {column.name!r} of {where} has a default value, which old files do not hold")
    return column
