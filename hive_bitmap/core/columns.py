"""Describe table columns, and expressions that are index keys or aggregated."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hive_bitmap.errors import NotFound


@dataclass(frozen=True)
class Column:
    """A column of a table.

    `type` is Spark's simple string: `int`, `decimal(10,2)`, `string collate UTF8_LCASE`. With `default`, Spark returns
    a default value for files that lack the column (ADD COLUMN .. DEFAULT). `file_name` is the column's name in files;
    "" if files have the column under `name`. A column with a `field_id` is found in files by this id instead of a name.
    """

    name: str
    type: str
    default: bool = False
    file_name: str = ""
    field_id: int | None = None


@dataclass(frozen=True)
class KeyText:
    """The text and the name of an expression in a statement.

    The expression is a key of an index, or the index aggregates it.
    """

    sql: str
    alias: str

    def __str__(self) -> str:
        return f"{self.sql} AS {self.alias}"


@dataclass(frozen=True)
class KeyExpression:
    """An expression that is a key of an index, or that an index aggregates.

    `alias` is the name of the key's column in the index table; the names of the columns with aggregates end with it.
    `type` is Spark's simple string of the expression's type. `sql` is the text of the expression, and `canonical` its
    text after Spark has resolved it. `columns` are the columns of the base table in the expression. `settings` are the
    settings of Spark on which the value depends, and the version of the time zone's rules, by name. `spark` is the
    feature version of Spark, such as `4.3`.
    """

    alias: str
    type: str
    sql: str
    canonical: str
    columns: tuple[Column, ...]
    settings: tuple[tuple[str, str], ...] = ()
    spark: str = ""

    def __str__(self) -> str:
        return f"{self.sql} AS {self.alias}"

    @cached_property
    def name(self) -> str:
        """The name of the expression in predicates and plans.

        The name depends on the expression and everything that its value depends on, but not on `alias`, and not on the
        order of the table's columns. No column of a table has this name.
        """
        columns = sorted([column.name.lower(), column.type] for column in self.columns)
        content = json.dumps([self.canonical, self.type, columns, sorted(self.settings)])
        return f"hive_bitmap key {_digest(content)}"

    @cached_property
    def values_name(self) -> str:
        """The name of the values that a build computes for this expression.

        Two expressions with the same `name` may have columns with other ids in files, or be of other versions of Spark.
        Then the names of their values differ.
        """
        return f"hive_bitmap values {_digest(repr((self.name, self.columns, self.spark)))}"

    @property
    def key(self) -> Column:
        """The key as a column, under `name`."""
        return Column(self.name, self.type)

    @property
    def stored(self) -> Column:
        """The key's column in the index table, under `alias`."""
        return Column(self.alias, self.type)

    @property
    def description(self) -> dict[str, Any]:
        """The expression in the form that `KeyExpressions.java` takes."""
        return {
            "name": self.name,
            "type": self.type,
            "sql": self.sql,
            "canonical": self.canonical,
            "columns": [column.name for column in self.columns],
            "settings": dict(self.settings),
        }

    @property
    def aggregated_description(self) -> dict[str, Any]:
        """The `description` of an expression that is aggregated."""
        return {**self.description, "aggregated": True}

    @property
    def values_description(self) -> dict[str, Any]:
        """The `aggregated_description` to compute the values under `values_name`."""
        return {**self.aggregated_description, "name": self.values_name}


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()[:32]


Key = str | KeyText | KeyExpression  # a key of a new index; a str is the name of a column


def find(columns: Iterable[Column], name: str, where: str) -> Column:
    """Return the column of this name, ignoring case.

    Raises NotFound if no column has this name. The message lists the names of all `columns`; `where` names the object
    that the columns belong to, for example `table db.t`.
    """
    columns = tuple(columns)
    for column in columns:
        if column.name.lower() == name.lower():
            return column
    raise NotFound.of("column", name, [column.name for column in columns], where)
