"""Coverage of a table's files by its indexes, as the server sees both."""

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
    """The base files that one index covers, in numbers."""

    definition: Definition
    fresh: int = 0  # files that are as they were indexed
    stale: int = 0  # files that changed since
    unindexed: int = 0  # files that the index does not know
    gone: int = 0  # files that the index knows and that no longer exist
    rows: int = 0  # rows of the fresh files
    problem: str = ""  # why the index cannot be used, and nothing is counted; empty if it can


def show(server: Server, table: str) -> list[Coverage]:
    """Return the coverage of each index of a table, by the name of the index.

    Raises NotFound for an unknown table, Unsupported, CorruptIndex and ServerError.
    """
    base = tables.describe(server, table)
    format = format_of(server, base)
    found = tables.indexes(server, base)
    values = tables.partitions(server, base) if base.partition_columns else [()]
    located = folders(server, base, values)
    return [
        Coverage(definition=definition, problem=why)
        if why
        else _coverage(server, base, format, located, index_table, definition)
        for index_table, definition, why in found
    ]


def _coverage(
    server: Server,
    base: Table,
    format: str,
    located: dict[tuple[str | None, ...], str],
    index_table: Table,
    definition: Definition,
) -> Coverage:
    """Return the coverage of one index; `located` has the folder of each partition of the base table, by its values."""
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
    """Return all rows of each lookup as its result, without reading index rows."""
    return [LookupResult(one.unit.rows, np.ones(len(one.unit.paths), bool), {}, 0) for one in lookups]
