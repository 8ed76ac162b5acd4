"""Show how indexes cover a table's files, as the server sees both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.manifest import Freshness
from hive_bitmap.core.predicates.nodes import TRUE
from hive_bitmap.core.segments import slots
from hive_bitmap.core.selecting.candidates import Lookup, look_up_files
from hive_bitmap.core.selecting.select import LookupResult
from hive_bitmap.core.table_info import Table
from hive_bitmap.hive.hiveserver import tables
from hive_bitmap.hive.hiveserver.connection import Server
from hive_bitmap.hive.hiveserver.states import folders, format_of, slots_of, table_files


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """The numbers of base files that an index covers."""

    definition: Definition
    fresh: int = 0  # files that are unchanged since they were indexed
    stale: int = 0  # files that changed since
    unindexed: int = 0  # files that the index does not have
    gone: int = 0  # files that the index has and that no longer exist
    rows: int = 0  # rows of the fresh files
    problem: str = ""  # why the index cannot be used, and nothing is counted; empty if it can be used


def show(server: Server, table: str) -> list[Coverage]:
    """Return the coverage of each index of a table, sorted by index name.

    Raises NotFound for an unknown table, Unsupported, CorruptIndex and ServerError.
    """
    base = tables.describe(server, table)
    format = format_of(server, base)
    indexes = tables.indexes(server, base)
    values = tables.partitions(server, base) if base.partition_columns else [()]
    located = folders(server, base, values)
    return [
        Coverage(definition=definition, problem=why)
        if why
        else _coverage(server, base, format, located, index_table, definition)
        for index_table, definition, why in indexes
    ]


def _coverage(
    server: Server,
    base: Table,
    format: str,
    located: dict[tuple[str | None, ...], str],
    index_table: Table,
    definition: Definition,
) -> Coverage:
    """Return the coverage of an index.

    `located` has the folder of each partition of the base table, by its values.
    """
    segments = slots.segments(slots_of(server, index_table), definition)
    state = table_files(server, base, format, located, [(definition, segments)])
    results = look_up_files(state, [TRUE] * len(state.partitions), {"": definition}, _everything)
    whole = Counter(file.freshness for file in results.whole_files)
    return Coverage(
        definition=definition,
        fresh=sum(len(lookup.unit.paths) for lookup in results.lookups),
        stale=whole[Freshness.STALE],
        unindexed=whole[Freshness.UNINDEXED],
        gone=results.deleted,
        rows=sum(int(lookup.unit.rows.sum()) for lookup in results.lookups),
    )


def _everything(lookups: Sequence[Lookup]) -> list[LookupResult]:
    """Return all rows of each lookup without reading index rows."""
    return [LookupResult(lookup.unit.rows, np.ones(len(lookup.unit.paths), bool), {}, 0) for lookup in lookups]
