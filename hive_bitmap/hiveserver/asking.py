"""From a table and a predicate to what holds it: blocks and counts, and the files of which the index knows nothing.

Nothing is believed to be fresh: the server lists the base table's files, and they are compared with the manifests. That
is by size and time alone; the sum of a file's tail, which other entry points look at too, is out of reach here.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from hive_bitmap import stores
from hive_bitmap.columns import Column
from hive_bitmap.errors import NotFound, ServerError, Unsupported
from hive_bitmap.explaining.plan import Plan
from hive_bitmap.hiveserver import tables
from hive_bitmap.hiveserver.connection import Server
from hive_bitmap.hiveserver.evaluation import evaluation
from hive_bitmap.hiveserver.hiveql import MOST_VALUES, literal
from hive_bitmap.hiveserver.states import Values, folders, format_of, state
from hive_bitmap.index.definition import Definition
from hive_bitmap.metastore.table_info import Table, quote
from hive_bitmap.planning.planner import PlanInputs, explain_indexes, make_plan
from hive_bitmap.planning.table_state import typed_values
from hive_bitmap.predicates.nodes import TRUE, Constant, Predicate
from hive_bitmap.predicates.parser import parse
from hive_bitmap.reading.offsets import READER_LIMIT, covering_offsets, result_file, selected_offsets
from hive_bitmap.selecting.candidates import choose_indexes, look_up_files, residuals

log = logging.getLogger(__name__)
WHOLE_BLOCKS = ("parquet", "orc")  # formats whose readers give a block to the one split that holds its offset


@dataclass(frozen=True)
class _Target:
    """A table that can be asked about, and the format of its files."""

    base: Table
    format: str


def ask(server: Server, table: str, predicate: str | None) -> Plan:
    """What the indexes of a table say of a predicate (None: all rows), as a plan that is of blocks and counts alone.

    Its `rows_selected` is None where only an upper bound is known. Files that the index does not know as they are now
    are `scanned` in the plan. Raises NotFound for a table without a usable index, Unsupported for one whose files the
    server might read otherwise than was indexed, InvalidPredicate, ServerError, and CorruptIndex for an index table
    whose rows cannot be.
    """
    return _ask(server, _target(server, table), predicate)


def _target(server: Server, table: str) -> _Target:
    base = tables.describe(server, table)
    return _Target(base, format_of(server, base))


def _ask(server: Server, target: _Target, predicate: str | None) -> Plan:
    base, format = target.base, target.format
    tree = TRUE if predicate is None else parse(predicate, (*base.columns, *base.partition_columns), base.name)
    found = tables.indexes(server, base)
    chosen = _chosen(server, base, tree, found)
    served = {definition.name for definition in chosen.values()}
    used = [(of, definition) for of, definition, _ in found if definition.name in served]
    _require_readable(server, [definition for _, definition in used])
    left = _left(server, base, tree)
    places = [folders(server, of, left) for of, _ in used]
    states = []
    for values, folder in folders(server, base, left).items():
        here = [(one, place[values]) for (_, one), place in zip(used, places, strict=True) if values in place]
        states.append(state(server, base, format, values, folder, here))
    predicates = [left[one.values] for one in states]
    work = look_up_files(states, predicates, chosen, evaluation(server, chosen, _within(base.partition_columns, left)))
    if [folders(server, tables.describe(server, of.sql_name), left) for of, _ in used] != places:
        raise ServerError(f"an index of {base.full_name} was rebuilt while it was asked: ask again")
    uses = explain_indexes([(definition, why) for _, definition, why in found], chosen, tree)
    return make_plan(PlanInputs(base.full_name, predicate, format, cores=1, count=True), uses, work)


def count(server: Server, table: str, predicate: str | None) -> int:
    """How many rows satisfy a predicate. Raises what `ask` does, and Unsupported where the index alone cannot tell."""
    plan = ask(server, table, predicate)
    _require_fresh(plan)
    if plan.rows_selected is None:
        raise Unsupported(
            f"the indexes of {plan.table} alone cannot tell how many rows satisfy {predicate!r}: "
            "ask the engine, or index its columns as BITMAP"
        )
    return plan.rows_selected


def write_offsets(
    server: Server,
    table: str,
    predicate: str | None,
    path: str,
    *,
    utf8: bool = False,
    min_split: int | None = None,
) -> Plan:
    """Write the compact-index result file of a predicate to a local path, and return the plan behind it.

    `utf8` allows paths that are not ASCII. Of formats whose blocks reach over several splits, and whose lines or sync
    marks only their bytes tell, no split of the reader may be smaller than `min_split` bytes, but for the last of a
    file. Raises what `ask` does, and Unsupported where that is not said, where a file is not indexed as it is now, for
    nobody here can tell the offsets of its blocks, where a reader would misread the result file, and for Spark's Thrift
    Server, which does not show all that a reader may see; nothing is written then.
    """
    if server.is_spark:
        raise Unsupported(
            "Spark's Thrift Server does not show all files that a reader in Hive may see: ask HiveServer2"
        )
    target = _target(server, table)
    plan = _ask(server, target, predicate)
    _require_fresh(plan)
    if target.format in WHOLE_BLOCKS:
        found, most = selected_offsets(plan.files, plan.blocks, {}), plan.bytes_selected or 0
    else:
        found = covering_offsets(plan.files, plan.blocks, target.format, min_split)
        most = sum(one["size"] for one in plan.files.to_pylist() if one["path"] in found)
    content = result_file(found, utf8=utf8)
    if most > READER_LIMIT:
        log.warning("%s stands for more than the %d bytes that a reader takes by default", path, READER_LIMIT)
    with stores.open_output("file:" + stores.absolute(path)) as sink:
        sink.write(content)
    return plan


def _chosen(
    server: Server, base: Table, tree: Predicate, found: Sequence[tuple[Table, Definition, str]]
) -> dict[str, Definition]:
    """The index of each column that the predicate tests; any index where it tests none, to know how many rows are."""
    usable = [definition for _, definition, why in found if not why]
    if usable:
        return choose_indexes(usable, tree) or choose_indexes(usable, TRUE)
    if not found and (others := tables.index_tables(server, base)):
        raise NotFound(
            f"table {base.database}.{others[0]} is not an index table of hive_bitmap, or its properties hive_bitmap.* "
            "were edited: hive-bitmap register makes it anew"
        )
    why_not = "; ".join(why for _, _, why in found) or "create one, or register what was built elsewhere"
    raise NotFound(f"no index of table {base.full_name} can be used: {why_not}")


def _require_readable(server: Server, used: Sequence[Definition]) -> None:
    newer = [definition.name for definition in used if definition.compression == "zstd"]
    if newer and (version := str(server.all("SELECT version()")[0][0])).partition(".")[0] in ("1", "2", "3"):
        raise Unsupported(
            f"index {newer[0]} is compressed with zstd, which Hive {version.split()[0]} cannot read: "
            "set its property compression to snappy, and rebuild it in full"
        )


def _left(server: Server, base: Table, tree: Predicate) -> dict[Values, Predicate]:
    """The partitions of which the predicate leaves something, and what it leaves."""
    values = tables.partitions(server, base) if base.partition_columns else [()]
    typed = typed_values(base.partition_columns, values)
    rests = residuals(tree, base.partition_columns, typed, {})
    pairs = zip(values, rests, strict=True)
    return {one: rest for one, rest in pairs if not isinstance(rest, Constant) or rest.value is True}


def _within(columns: Sequence[Column], left: dict[Values, Predicate]) -> str:
    """A condition that is TRUE of these partitions; empty where it would be long, or might be misread."""
    parts = []
    for position, column in enumerate(columns):
        texts = {values[position] for values in left}
        if not texts or None in texts or len(texts) > MOST_VALUES or column.type not in ("string", "int", "bigint"):
            continue
        values = [literal(str(text) if column.type == "string" else int(str(text)), column.type) for text in texts]
        if all(values):
            parts.append(f"{quote(column.name)} IN ({', '.join(sorted(values))})")
    return " AND ".join(parts)


def _require_fresh(plan: Plan) -> None:
    scanned = plan.files.filter(plan.files["scanned"])
    if not scanned.num_rows:
        return
    first = scanned.slice(0, 1).to_pylist()[0]
    raise Unsupported(
        f"{scanned.num_rows} files of {plan.table} are not indexed as they are now, like {first['path']} "
        f"({first['reason']}): rebuild the index (hive-bitmap rebuild), or ask the engine"
    )
