"""A column as the metastore knows it: a name and Spark's simple type string."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hive_bitmap.errors import NotFound


@dataclass(frozen=True)
class Column:
    """A column of a table. `type` is Spark's simple string: `int`, `decimal(10,2)`, `string collate UTF8_LCASE`.

    `default` says that Spark shows files without the column as if they held a value (ADD COLUMN .. DEFAULT).
    """

    name: str
    type: str
    default: bool = False


def find(columns: Iterable[Column], name: str, where: str) -> Column:
    """The column of that name, whatever the case; NotFound names the columns that exist."""
    columns = tuple(columns)
    for column in columns:
        if column.name.lower() == name.lower():
            return column
    raise NotFound.of("column", name, [column.name for column in columns], where)
