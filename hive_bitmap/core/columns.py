"""Columns of tables: their names and Spark types."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hive_bitmap.errors import NotFound


@dataclass(frozen=True)
class Column:
    """A column of a table.

    `type` is Spark's simple string: `int`, `decimal(10,2)`, `string collate UTF8_LCASE`. With `default`, Spark reads a
    default value from files that lack the column (ADD COLUMN .. DEFAULT). `file_name` is the column's name in files; ""
    if files have the column under `name`. A column with a `field_id` is found in files by this id instead of a name.
    """

    name: str
    type: str
    default: bool = False
    file_name: str = ""
    field_id: int | None = None


def find(columns: Iterable[Column], name: str, where: str) -> Column:
    """Return the column of this name, ignoring case.

    Raises NotFound if no column has this name. The message has the names of all `columns`, and says with `where` what
    the columns belong to, for example `table db.t`.
    """
    columns = tuple(columns)
    for column in columns:
        if column.name.lower() == name.lower():
            return column
    raise NotFound.of("column", name, [column.name for column in columns], where)
