"""Whom an index is believed. Its table is found by name and properties, which anybody who may create tables can forge.

An index table is believed if it has the owner of its base table, an owner whom the administrator trusts, or a root in
a folder that the administrator trusts. Where the metastore knows no owners, both are empty and therefore equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from hive_bitmap.index.definition import Definition
from hive_bitmap.metastore.security_settings import TRUSTED_OWNERS, TRUSTED_ROOTS, items
from hive_bitmap.metastore.table_info import Table, hadoop_path


def why_untrusted(base: Table, table: Table, definition: Definition, settings: Callable[[], Mapping[str, str]]) -> str:
    """Return why an index, whose index table is `table`, is not believed; empty if it is.

    `settings` returns those of the session, with those of its server in force; it is called only if the owners differ.
    """
    if table.owner == base.owner:
        return ""
    known = settings()
    if table.owner and table.owner in items(known, TRUSTED_OWNERS):
        return ""
    if any(_is_below(definition.root, root) for root in items(known, TRUSTED_ROOTS)):
        return ""
    by_owner = f"{table.owner} in {TRUSTED_OWNERS} or " if table.owner else ""
    return (
        f"index {definition.name} is not believed, for index table {table.full_name} belongs to "
        f"{table.owner or 'nobody'} and table {base.full_name} to {base.owner or 'nobody'}: let the owner of the table "
        f"create it, or name {by_owner}its folder {definition.root} in {TRUSTED_ROOTS}"
    )


def _is_below(root: str, trusted: str) -> bool:
    """Whether a root lies in a trusted folder, by its name alone.

    >>> _is_below("hdfs://n/trusted/i", "hdfs://n/trusted/"), _is_below("file:/trusted/../x", "/trusted")
    (True, False)
    """
    home, folder = (hadoop_path(path if ":" in path.partition("/")[0] else f"file:{path}") for path in (trusted, root))
    names = re.sub("^[^:]*:(//[^/]*)?/", "", folder).split("/")
    return f"{folder}/".startswith(f"{home}/") and not {"", ".", ".."} & set(names)
