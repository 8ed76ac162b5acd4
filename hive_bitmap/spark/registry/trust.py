"""Decide which indexes are trusted.

An index table is found by name and properties, but anybody who may create tables can forge these. An index table is
trusted for one of three reasons: its owner is the owner of its base table, the administrator trusts its owner, or the
administrator trusts a folder in which it lies. In a metastore without owners, both owners are empty and therefore
equal. If the base table is gone, the user of the session takes the place of its owner. An index table in another
database than its base table is trusted only if the base table points at it. The decision uses only the metastore's own
data, before any file is read at a place that properties name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from hive_bitmap.core.index.definition import PREFIX, Definition, has_properties, pointers
from hive_bitmap.core.table_info import VARIABLE, Table, index_table_name, raw_hadoop_path
from hive_bitmap.spark.metastore import metastore, session_settings
from hive_bitmap.spark.metastore.jvm_settings import TRUSTED_OWNERS, TRUSTED_ROOTS, items

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Judge = Callable[[Table, Definition | None], str]  # why an index table is not trusted; "" if it is


def by_base(spark: SparkSession, base: Table) -> Judge:
    """Return a function that judges index tables of a base table.

    The function takes an index table and its definition, or None for a table without a definition. The function returns
    why the index table is not trusted; "" if it is trusted.
    """
    return lambda table, definition: why_untrusted(base, table, definition, lambda: session_settings.settings(spark))


def by_database(spark: SparkSession, tables: Sequence[Table]) -> Judge:
    """Return a function that judges index tables of a database.

    The function takes and returns the same as the function of `by_base`. `tables` are all tables of the database; if
    the base table of one of its index tables is in another database, `tables` includes this base table. An index table
    without a definition may belong to several base tables; it is trusted if it is trusted for one of these base tables.
    """
    by_name = {(table.catalog, table.database, table.name): table for table in tables}

    def judge(table: Table, definition: Definition | None) -> str:
        if definition is not None:
            base = by_name.get((definition.catalog, definition.database, definition.table))
            bases = [] if base is None else [base]
        else:
            bases = [base for base in tables if _may_index(base, table)]
        bases = bases or [_of_user(spark, table, definition)]
        reasons = [_why_not_pointed(base, table) or by_base(spark, base)(table, definition) for base in bases]
        return "" if "" in reasons else reasons[0]

    return judge


def base_named(table: Table) -> tuple[str, str] | None:
    """Return the database and the name of an index table's base table.

    Return None if the properties name no table. A table in another catalog has its index tables in the session
    catalog's database of the same name; None is returned for it, too.
    """
    base_name = table.properties.get(f"{PREFIX}table", "") if has_properties(table) else ""
    database, _, name = base_name.partition(".")
    return (database, name) if database and name and "." not in name and VARIABLE not in base_name else None


def _why_not_pointed(base: Table, table: Table) -> str:
    """Return why a base table does not point at an index table.

    Return "" if the base table points at the index table, or if both tables are in the same database, where no pointer
    is needed.
    """
    if table.database == base.database or (table.database, table.name) in pointers(base):
        return ""
    return (
        f"table {base.full_name} does not point at index table {table.full_name}: DROP TABLE {table.full_name}, and "
        "create the index again"
    )


def _may_index(base: Table, table: Table) -> bool:
    """Return whether a table may be an index table of `base`.

    The result is true if one of the two tables names the other table in its properties. The result is also true if both
    tables are in the same database, and `table` has a name like the default names of the index tables of `base`.
    """
    if base_named(table) == (base.database, base.name) or (table.database, table.name) in pointers(base):
        return True
    beginning = index_table_name(base.database, base.name, "*").partition("*")[0]
    return table.database == base.database and table.name.startswith(beginning)


def _of_user(spark: SparkSession, table: Table, definition: Definition | None) -> Table:
    """Return a table in place of a missing base table, owned by the session's user.

    `table` is the index table. If the index table has no owner, the result has no owner either.
    """
    owner = metastore.current_user(spark) if table.owner else ""
    return Table(database=table.database, name=definition.table if definition else "", kind="EXTERNAL", owner=owner)


def why_untrusted(
    base: Table, table: Table, definition: Definition | None, settings: Callable[[], Mapping[str, str]]
) -> str:
    """Return why an index is not trusted; "" if it is trusted.

    `table` is the index table. If its owner is not trusted, the index table must be in a trusted folder, and so must
    the root in its definition, if there is a definition. `settings` returns the settings of the session, within the
    limits that its server sets. `settings` is called only if the two tables have different owners.
    """
    if table.owner == base.owner:
        return ""
    in_force = settings()
    if table.owner and table.owner in items(in_force, TRUSTED_OWNERS):
        return ""
    places = [table.location, *([definition.root] if definition else [])]
    if any(all(_is_below(place, root) for place in places) for root in items(in_force, TRUSTED_ROOTS)):
        return ""
    by_owner = f"{table.owner} in {TRUSTED_OWNERS} or " if table.owner else ""
    name = f"index {definition.name}" if definition else "an index"
    return (
        f"{name} is not trusted, because index table {table.full_name} belongs to "
        f"{table.owner or 'nobody'} and table {base.full_name} to {base.owner or 'nobody'}: let the owner of the table "
        f"create it, or name {by_owner}its folder {places[-1]} in {TRUSTED_ROOTS}"
    )


def _is_below(root: str, trusted: str) -> bool:
    """Return whether the name of a root lies below the name of a trusted folder.

    >>> _is_below("hdfs://n/trusted/i", "hdfs://n/trusted/"), _is_below("file:/trusted/../x", "/trusted")
    (True, False)
    """
    home, folder = (raw_hadoop_path(path) for path in (trusted, root))
    names = re.sub("^([^/:]*:)?(//[^/]*)?/*", "", root.rstrip("/")).split("/")
    return f"{folder}/".startswith(f"{home}/") and not {"", ".", ".."} & set(names)
