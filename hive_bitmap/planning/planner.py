"""The plan of a query: what is kept of all, the strategy, and why. Pure: values in, values out.

The index must never make a query slower, so each strategy has a price, from the counts that the index gave and from
measured unit costs, and the cheapest one that is possible wins; a full scan wins when it is nearly as cheap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from hive_bitmap.explaining.plan import (
    BLOCKS,
    BLOCKS_SCHEMA,
    FILES,
    FILES_SCHEMA,
    FULL_SCAN,
    INDEX_ONLY,
    ROWS,
    IndexUse,
    Plan,
)
from hive_bitmap.index.definition import Definition
from hive_bitmap.planning.prices import (
    CLEARLY_CHEAPER,
    Reads,
    direct_seconds,
    engine_seconds,
    native_file_seconds,
    native_seconds,
    reads,
    scan_seconds,
)
from hive_bitmap.predicates.nodes import Predicate, columns_of
from hive_bitmap.selecting.candidates import FRESH, UNINDEXED, Lookup, LookupResults
from hive_bitmap.selecting.select import LookupResult
from hive_bitmap.stores.speed import LOCAL, Speed

DIRECT_STRATEGY = {"parquet": ROWS, "orc": BLOCKS}


@dataclass(frozen=True)
class Question:
    """What the price of a strategy depends on, beside what the indexes say of the files."""

    table: str
    predicate: str | None  # as the user wrote it
    format: str  # a key of FORMATS
    columns: frozenset[str]  # data columns that are read, in lower case
    schema_crc: int  # of the table's columns as they are now
    cores: int  # how many tasks run at once
    count: bool = False
    unreadable: Mapping[str, str] = field(default_factory=dict)  # files read whole that only Spark reads: path, reason
    engine_can_skip_files: bool = True
    engine_can_skip_splits: bool = False
    engine_reads_only: bool = False  # the setting hive_bitmap.engine_reads_only
    share: float = 1.0  # of the files' bytes, that the columns take
    native: bool = False  # whether Spark's own reader can be told blocks
    store: Speed = LOCAL  # how fast the files come
    times: float = 1.0  # the bytes of the table by those of what was looked up, which may be a sample


def full_scan(
    table: str, predicate: str | None, reason: str, indexes: tuple[IndexUse, ...] = (), code: str = ""
) -> Plan:
    """The plan that reads all, for this reason."""
    return Plan(table, predicate, FULL_SCAN, reason, indexes, code=code)


def explain_indexes(
    indexes: Sequence[tuple[Definition, str]], chosen: Mapping[str, Definition], predicate: Predicate
) -> tuple[IndexUse, ...]:
    """For each index of the table, given with why it cannot be used if so, whether it is used and why."""
    wanted = {column.lower() for column in columns_of(predicate)}
    uses = []
    for definition, why_not in indexes:
        serves = [column for column, d in chosen.items() if d is definition]
        others = sorted({chosen[c.lower()].name for c in definition.column_names if c.lower() in chosen})
        if serves:
            reason = f"serves {', '.join(serves)}" if serves != [""] else "knows how many rows there are"
        elif why_not:
            reason = why_not
        elif others:
            reason = f"index {', '.join(others)} serves the same column"
        elif wanted:
            reason = f"the predicate does not test {' or '.join(definition.column_names)}"
        else:
            reason = "the predicate tests no indexed column"
        encoding = definition.encoding if definition.type == "BITMAP" else None
        uses.append(IndexUse(definition.name, definition.column_names, encoding, bool(serves), reason))
    return tuple(uses)


def make_plan(question: Question, uses: tuple[IndexUse, ...], work: LookupResults) -> Plan:
    """The plan for the files that were looked up, by the cheapest strategy."""
    files, blocks = _tables(work)
    selected, rows, lengths = (blocks[name].to_numpy() for name in ("selected", "rows", "length"))
    read = reads(question.format, files, blocks, splits=question.engine_can_skip_splits)
    whole_files = files.num_rows - _read_by_index(files)
    exact = not whole_files and all(found.exact.all() for found in work.found)
    figures = {
        "blocks_total": blocks.num_rows + whole_files,
        "blocks_selected": int((selected > 0).sum()) + whole_files,
        "rows_total": int(rows.sum()) if not whole_files else None,
        "rows_selected": read.rows if exact else None,
        "bytes_total": read.total,
        "bytes_selected": int(lengths[selected > 0].sum()) + read.whole,
        "index_bytes": sum(found.index_bytes for found in work.found),
        "deleted": work.deleted,
    }
    costs, impossible = _costs(question, work, read.times(question.times), exact)
    strategy, reason = _choose(question, costs, impossible, figures, read.rows, int(rows.sum()))
    return Plan(
        question.table,
        question.predicate,
        strategy,
        reason,
        uses,
        files,
        blocks,
        costs=costs,
        candidates=work,
        **figures,
    )


def needs_file(found: LookupResult, lookup: Lookup) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Of each file of a lookup, whether any row of it is selected."""
    return np.bincount(lookup.unit.file, found.counts, len(lookup.unit.paths)) > 0


def _tables(work: LookupResults) -> tuple[pa.Table, pa.Table]:
    files: list[tuple[object, ...]] = []
    blocks: list[pa.Table] = []
    for lookup, found in zip(work.lookups, work.found, strict=True):
        unit, first = lookup.unit, len(files)
        partition = work.partitions[lookup.partition].name
        sizes = [fingerprint.size for fingerprint in lookup.fingerprints]
        counts = np.bincount(unit.file, minlength=len(unit.paths))
        for number, path in enumerate(unit.paths):
            damage = found.damaged.get(number)
            state = (UNINDEXED, damage) if damage else (FRESH, "")
            files.append((path, partition, *state, sizes[number], bool(damage), int(counts[number])))
        blocks.append(
            pa.Table.from_arrays(
                [
                    pa.array(unit.file + first, pa.int32()),
                    *map(pa.array, (unit.offset, unit.length, unit.rows, found.counts)),
                ],
                schema=BLOCKS_SCHEMA,
            )
        )
    for whole in work.whole:
        name = work.partitions[whole.partition].name
        files.append((whole.status.path, name, whole.state, whole.reason, whole.status.size, True, 0))
    columns = list(zip(*files, strict=True)) or [()] * len(FILES_SCHEMA)
    table = pa.Table.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, FILES_SCHEMA, strict=True)], schema=FILES_SCHEMA
    )
    return table, pa.concat_tables([BLOCKS_SCHEMA.empty_table(), *blocks])


def _read_by_index(files: pa.Table) -> int:
    return int((~files["scanned"].to_numpy(zero_copy_only=False)).sum())


def _costs(
    question: Question, work: LookupResults, read: Reads, exact: bool
) -> tuple[dict[str, float], dict[str, str]]:
    """The price in seconds of each strategy that is possible, and why the others are not."""
    share, cores, store = question.share, question.cores, question.store
    costs = {FULL_SCAN: scan_seconds(question.format, share * read.total, cores, read.files, store)}
    impossible = {}
    direct = ROWS if question.native else DIRECT_STRATEGY.get(question.format, BLOCKS)
    direct_price = direct_seconds(question.format, read, share, cores, store)
    engine_only = _why_engine_only(question, work)
    if engine_only is not None:
        impossible[INDEX_ONLY if question.count else direct] = engine_only
    elif question.count:
        costs[INDEX_ONLY] = 0.0 if exact and not read.whole else direct_price
    else:
        costs[direct] = direct_price
    if not question.count:
        engine_price = engine_seconds(question.format, read, share, cores, store)
        if question.native:
            impossible.clear()
            costs[BLOCKS] = native_seconds(question.format, read, read.ranges, share, cores, store)
            costs[FILES] = native_file_seconds(question.format, read, share, cores, store)
        elif question.engine_can_skip_splits:
            costs[BLOCKS] = engine_price
            impossible.clear()
        elif question.engine_can_skip_files:
            costs[FILES] = engine_price
        else:
            impossible[FILES] = "the session's reader cannot skip files"
    return costs, impossible


def _why_engine_only(question: Question, work: LookupResults) -> str | None:
    """Why the files that must be opened cannot be read but through the engine; None if they can."""
    if question.engine_reads_only:
        return "hive_bitmap.engine_reads_only is true"
    for lookup, found in zip(work.lookups, work.found, strict=True):
        opened = needs_file(found, lookup) & ~found.exact if question.count else needs_file(found, lookup)
        for file in np.flatnonzero(opened).tolist():
            if lookup.schema_crc[file] != question.schema_crc:
                return "the table's columns changed since the index was built"
            if columns := sorted(lookup.indirect[file] & question.columns):
                return f"only Spark reads column {columns[0]!r} of these files as it should be"
    return next(iter(question.unreadable.values()), None)


def _choose(
    question: Question,
    costs: Mapping[str, float],
    impossible: Mapping[str, str],
    figures: Mapping[str, int | None],
    kept: int,
    rows: int,
) -> tuple[str, str]:
    cheapest = min(costs, key=lambda strategy: costs[strategy])
    if cheapest == INDEX_ONLY and (costs[INDEX_ONLY] == 0 or costs[INDEX_ONLY] < costs[FULL_SCAN]):
        rest = "" if figures["rows_selected"] is not None else ", but for files that it does not know as they are"
        return INDEX_ONLY, f"the index holds the answer{rest}"
    if cheapest == FULL_SCAN or costs[cheapest] > CLEARLY_CHEAPER * costs[FULL_SCAN]:
        why = "; ".join(f"{strategy}: {reason}" for strategy, reason in impossible.items())
        share = f"{kept / rows:.1%} of the indexed rows are selected" if rows else "no file is indexed as it is now"
        return FULL_SCAN, f"{share}: reading all costs no more" + (f" ({why})" if why else "")
    saved = 1 - (figures["bytes_selected"] or 0) / max(figures["bytes_total"] or 0, 1)
    left = f"{saved:.0%} of the bytes need not be read"
    return cheapest, f"{left}; {'; '.join(impossible.values())}" if cheapest == FILES and impossible else left
