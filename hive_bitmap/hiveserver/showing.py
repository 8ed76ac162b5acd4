"""What the indexes of a table cover of its files, as the server sees both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hive_bitmap.hiveserver import tables
from hive_bitmap.hiveserver.connection import Server
from hive_bitmap.hiveserver.states import folders, format_of, state
from hive_bitmap.index.definition import Definition
from hive_bitmap.metastore.table_info import Table
from hive_bitmap.predicates.nodes import TRUE
from hive_bitmap.selecting.candidates import STALE, UNINDEXED, Lookup, look_up_files
from hive_bitmap.selecting.select import LookupResult


@dataclass(frozen=True)
class Coverage:
    """One index: how many base files are as it saw them, changed since, unknown to it, or known and gone.

    `rows` are those of the fresh files. `problem` says why the index cannot be used, and then nothing is counted; it is
    empty where it can.
    """

    definition: Definition
    fresh: int = 0
    stale: int = 0
    unindexed: int = 0
    gone: int = 0
    rows: int = 0
    problem: str = ""


def show(server: Server, table: str) -> list[Coverage]:
    """The indexes of a table, by name. Raises NotFound for an unknown table, Unsupported, CorruptIndex, ServerError."""
    base = tables.describe(server, table)
    format = format_of(server, base)
    found = tables.indexes(server, base)
    values = tables.partitions(server, base) if base.partition_columns else [()]
    where = folders(server, base, values)
    return [
        Coverage(definition, problem=why) if why else _coverage(server, base, format, where, index_table, definition)
        for index_table, definition, why in found
    ]


def _coverage(
    server: Server,
    base: Table,
    format: str,
    where: dict[tuple[str | None, ...], str],
    index_table: Table,
    definition: Definition,
) -> Coverage:
    places = folders(server, index_table, where)
    states = [
        state(server, base, format, values, folder, [(definition, places[values])] if values in places else [])
        for values, folder in where.items()
    ]
    work = look_up_files(states, [TRUE] * len(states), {"": definition}, _everything)
    states_of = Counter(one.state for one in work.whole)
    return Coverage(
        definition,
        sum(len(lookup.unit.paths) for lookup in work.lookups),
        states_of[STALE],
        states_of[UNINDEXED],
        work.deleted,
        sum(int(lookup.unit.rows.sum()) for lookup in work.lookups),
    )


def _everything(lookups: Sequence[Lookup]) -> list[LookupResult]:
    return [LookupResult(one.unit.rows, np.ones(len(one.unit.paths), bool), {}, 0) for one in lookups]
