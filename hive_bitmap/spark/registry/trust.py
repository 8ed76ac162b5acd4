"""Whom an index is believed. Its table is found by name and properties, which anybody who may create tables can forge.

An index table is believed if it has the owner of its base table, an owner whom the administrator trusts, or lies in a
folder that the administrator trusts. Where the metastore knows no owners, both are empty and therefore equal. If the
base table is gone, the user of the session stands for its owner. An index table in another database than its base table
is believed only if that points at it. All this is judged by what the metastore itself tells, before any file is read at
a place that properties name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from hive_bitmap.core.index.definition import PREFIX, Definition, has_properties, pointers
from hive_bitmap.core.table_info import VARIABLE, Table, index_table_name, raw_hadoop_path
from hive_bitmap.spark.metastore import metastore, session_settings
from hive_bitmap.spark.metastore.security_settings import TRUSTED_OWNERS, TRUSTED_ROOTS, items

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Judge = Callable[[Table, Definition | None], str]  # why an index table is not trusted; "" if it is


def by_base(spark: SparkSession, base: Table) -> Judge:
    """Return the judge of the index tables of one base table."""
    return lambda table, definition: why_untrusted(base, table, definition, lambda: session_settings.settings(spark))


def by_database(spark: SparkSession, tables: Sequence[Table]) -> Judge:
    """Return the judge of index tables of a database, all of whose tables are given, and their base tables elsewhere.

    One without a definition is believed if it is believed of a table whose index table it may be, by its name.
    """
    by_name = {(table.catalog, table.database, table.name): table for table in tables}

    def judge(table: Table, definition: Definition | None) -> str:
        if definition is not None:
            named = by_name.get((definition.catalog, definition.database, definition.table))
            bases = [] if named is None else [named]
        else:
            bases = [base for base in tables if _may_index(base, table)]
        bases = bases or [_of_user(spark, table, definition)]
        whys = [_unnamed(base, table) or by_base(spark, base)(table, definition) for base in bases]
        return "" if "" in whys else whys[0]

    return judge


def base_named(table: Table) -> tuple[str, str] | None:
    """Return the database and the name of the base table that an index table names; None if it names none.

    Those in other catalogs are left out: their index tables lie in the database of that name.
    """
    named = table.properties.get(f"{PREFIX}table", "") if has_properties(table) else ""
    database, _, name = named.partition(".")
    return (database, name) if database and name and "." not in name and VARIABLE not in named else None


def _unnamed(base: Table, table: Table) -> str:
    """Return that a base table does not point at an index table in another database; "" if it does, or need not."""
    if table.database == base.database or (table.database, table.name) in pointers(base):
        return ""
    return (
        f"table {base.full_name} does not point at index table {table.full_name}: DROP TABLE {table.full_name}, and "
        "create the index anew"
    )


def _may_index(base: Table, table: Table) -> bool:
    """Return whether a table may be an index table of `base`, by the names that either has."""
    if base_named(table) == (base.database, base.name) or (table.database, table.name) in pointers(base):
        return True
    beginning = index_table_name(base.database, base.name, "*").partition("*")[0]
    return table.database == base.database and table.name.startswith(beginning)


def _of_user(spark: SparkSession, table: Table, definition: Definition | None) -> Table:
    """Return what stands for a base table that is gone: one that belongs to the user of the session.

    Where the index table has no owner, neither had the base table.
    """
    owner = metastore.current_user(spark) if table.owner else ""
    return Table(database=table.database, name=definition.table if definition else "", kind="EXTERNAL", owner=owner)


def why_untrusted(
    base: Table, table: Table, definition: Definition | None, settings: Callable[[], Mapping[str, str]]
) -> str:
    """Return why an index, whose index table is `table`, is not trusted; empty if it is.

    Both the place of the table and the root in its definition, if it has one, have to be in a trusted folder.
    `settings` returns those of the session, with those of its server in force; it is called only if the owners differ.
    """
    if table.owner == base.owner:
        return ""
    known = settings()
    if table.owner and table.owner in items(known, TRUSTED_OWNERS):
        return ""
    places = [table.location, *([definition.root] if definition else [])]
    if any(all(_is_below(place, root) for place in places) for root in items(known, TRUSTED_ROOTS)):
        return ""
    by_owner = f"{table.owner} in {TRUSTED_OWNERS} or " if table.owner else ""
    name = f"index {definition.name}" if definition else "an index"
    return (
        f"{name} is not trusted, for index table {table.full_name} belongs to "
        f"{table.owner or 'nobody'} and table {base.full_name} to {base.owner or 'nobody'}: let the owner of the table "
        f"create it, or name {by_owner}its folder {places[-1]} in {TRUSTED_ROOTS}"
    )


def _is_below(root: str, trusted: str) -> bool:
    """Whether a root lies in a trusted folder, by its name alone.

    >>> _is_below("hdfs://n/trusted/i", "hdfs://n/trusted/"), _is_below("file:/trusted/../x", "/trusted")
    (True, False)
    """
    home, folder = (raw_hadoop_path(path) for path in (trusted, root))
    names = re.sub("^([^/:]*:)?(//[^/]*)?/*", "", root.rstrip("/")).split("/")
    return f"{folder}/".startswith(f"{home}/") and not {"", ".", ".."} & set(names)
