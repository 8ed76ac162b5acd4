"""Query a table's indexes through HiveServer2: select blocks, count rows, write offsets.

A lookup of a predicate selects blocks and counts the matching rows in each block; it also lists the files that no index
covers. The total count, and the offsets file for readers of compact indexes, are made from this lookup. The files in
the server's listings are compared with the manifests by size and modification time only, because a server does not show
the checksum of a file's tail.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Sequence

from hive_bitmap.core import stores
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import SEGMENT, Definition
from hive_bitmap.core.planning.index_choice import explain_indexes
from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.planner import PlanInputs, make_plan
from hive_bitmap.core.predicates.nodes import TRUE, Constant, Predicate
from hive_bitmap.core.segments import slots
from hive_bitmap.core.selecting.candidates import choose_indexes, look_up_files, residual_predicates
from hive_bitmap.core.selecting.offsets import READER_LIMIT, covering_offsets, result_file, selected_offsets
from hive_bitmap.core.table_info import Table, quote
from hive_bitmap.errors import NotFound, ServerError, Unsupported
from hive_bitmap.hive.hiveserver import tables
from hive_bitmap.hive.hiveserver.connection import Server
from hive_bitmap.hive.hiveserver.evaluation import evaluation
from hive_bitmap.hive.hiveserver.hiveql import MOST_VALUES, literal
from hive_bitmap.hive.hiveserver.parser import parse
from hive_bitmap.hive.hiveserver.states import Values, folders, format_of, slots_of, table_files
from hive_bitmap.spark.preparing.snapshot import typed_values

log = logging.getLogger(__name__)
_INTEGER = re.compile("-?[0-9]{1,18}")
WHOLE_BLOCKS = ("parquet", "orc")  # formats whose readers assign a block to the one split with its offset


def look_up(server: Server, table: str, predicate: str | None) -> Plan:
    """Look up a predicate, and return a plan with blocks and counts.

    The predicate None stands for all rows. `rows_selected` of the plan is None if only an upper bound is known. Files
    whose current version is not indexed are `scanned` in the plan. Raises NotFound for a table without a usable index,
    Unsupported if the server may read other values from the table's files than were indexed, CorruptIndex for an index
    table with impossible rows, InvalidPredicate, and ServerError.
    """
    base = tables.describe(server, table)
    return _look_up(server, base, format_of(server, base), predicate)


def _look_up(server: Server, base: Table, format: str, predicate: str | None) -> Plan:
    tree = TRUE if predicate is None else parse(predicate, (*base.columns, *base.partition_columns), base.name)
    indexes = tables.indexes(server, base)
    chosen = _chosen(server, base, tree, indexes)
    names = {definition.name for definition in chosen.values()}
    used = [(index_table, definition) for index_table, definition, _ in indexes if definition.name in names]
    _require_readable(server, [definition for _, definition in used])
    residual = _residual_predicates(server, base, tree)
    slots_before = [slots_of(server, index_table) for index_table, _ in used]
    index_segments = [
        (definition, slots.segments(index_slots, definition))
        for (_, definition), index_slots in zip(used, slots_before, strict=True)
    ]
    state = table_files(server, base, format, folders(server, base, residual), index_segments)
    predicates = [residual[partition.values] for partition in state.partitions]
    in_partitions = partition_condition(base.partition_columns, residual)
    within = {
        definition.name: " AND ".join(filter(None, [in_partitions, _in_slots(index_slots, set(segments))]))
        for (definition, segments), index_slots in zip(index_segments, slots_before, strict=True)
    }
    results = look_up_files(state, predicates, chosen, evaluation(server, chosen, within))
    # The rows of a segment never change, so comparing the folders shows whether the rows belong to the same state.
    if [slots_of(server, index_table) for index_table, _ in used] != slots_before:
        raise ServerError(f"an index of {base.full_name} was rebuilt during the query: run the query again")
    uses = explain_indexes([(definition, why) for _, definition, why in indexes], chosen, tree)
    return make_plan(
        PlanInputs(table=base.full_name, predicate=predicate, format=format, cores=1, count=True), uses, results
    )


def count(server: Server, table: str, predicate: str | None) -> int:
    """Return how many rows satisfy a predicate.

    Raises the errors of `look_up`, and Unsupported if the number does not follow from the indexes alone.
    """
    plan = look_up(server, table, predicate)
    require_fresh(plan)
    if plan.rows_selected is None:
        raise Unsupported(
            f"the indexes of {plan.table} cannot tell how many rows satisfy {predicate!r}: "
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
    """Write the compact-index result file of a predicate, and return the plan.

    `path` is a local path. `utf8` allows paths that are not ASCII. `min_split` is the least size in bytes of the
    reader's splits, except the last split of a file; `min_split` is needed for formats whose blocks span several
    splits. Raises the errors of `look_up`. Raises Unsupported if `min_split` is missing, if a reader would misread the
    result file, if the current version of a file is not indexed (the offsets of its blocks are then unknown), and for
    Spark's Thrift Server, which does not list all files that a reader may see. After an error, nothing is written.
    """
    if server.is_spark:
        raise Unsupported(
            "Spark's Thrift Server does not show all files that a reader in Hive may see: ask HiveServer2"
        )
    base = tables.describe(server, table)
    format = format_of(server, base)
    plan = _look_up(server, base, format, predicate)
    require_fresh(plan)
    if format in WHOLE_BLOCKS:
        offsets, most = selected_offsets(plan.files, plan.blocks, {}), plan.bytes_selected or 0
    else:
        offsets = covering_offsets(plan.files, plan.blocks, format, min_split)
        most = sum(file["size"] for file in plan.files.to_pylist() if file["path"] in offsets)
    content = result_file(offsets, utf8=utf8)
    if most > READER_LIMIT:
        log.warning("%s selects more than the %d bytes that a reader accepts by default", path, READER_LIMIT)
    with stores.open_output("file:" + stores.absolute(path)) as sink:
        sink.write(content)
    return plan


def _chosen(
    server: Server, base: Table, tree: Predicate, indexes: Sequence[tuple[Table, Definition, str]]
) -> dict[str, Definition]:
    """Return the index of each column that the predicate `tree` tests.

    Each item of `indexes` is a tuple (index table, definition, reason); the reason says why the index cannot be used
    ("" if it can). If the predicate tests no indexed column, the result has one usable index, under the name "". Any
    usable index will do, because each index records the number of rows. Raises NotFound if no index can be used.
    """
    usable = [definition for _, definition, why in indexes if not why]
    if usable:
        return choose_indexes(usable, tree) or choose_indexes(usable, TRUE)
    if not indexes and (unusable_names := tables.index_tables(server, base)):
        raise NotFound(
            f"table {'.'.join(unusable_names[0])} is not an index table of hive_bitmap, or its properties "
            "hive_bitmap.* were edited: create it again with hive-bitmap register"
        )
    why_not = "; ".join(why for _, _, why in indexes) or "create one, or register an index that was built elsewhere"
    raise NotFound(f"no index of table {base.full_name} can be used: {why_not}")


def _require_readable(server: Server, used: Sequence[Definition]) -> None:
    """Raise Unsupported if the server cannot read the zstd compression of an index.

    Hive before version 4 cannot read zstd.
    """
    zstd = [definition.name for definition in used if definition.compression == "zstd"]
    if zstd and (version := str(server.all("SELECT version()")[0][0])).partition(".")[0] in ("1", "2", "3"):
        raise Unsupported(
            f"index {zstd[0]} is compressed with zstd, which Hive {version.split()[0]} cannot read: "
            "set its property compression to snappy, and rebuild it in full"
        )


def _residual_predicates(server: Server, base: Table, tree: Predicate) -> dict[Values, Predicate]:
    """Return the residual predicate of each partition that may have matching rows.

    The residual predicate is `tree` with the partition's values in place of the partition columns. The keys of the
    result are the values of the partitions.
    """
    values = tables.partitions(server, base) if base.partition_columns else [()]
    typed = typed_values(base.partition_columns, values)
    pairs = zip(values, residual_predicates(tree, base.partition_columns, typed, {}), strict=True)
    return {
        partition: residual
        for partition, residual in pairs
        if not isinstance(residual, Constant) or residual.value is True
    }


def _in_slots(index_slots: slots.Slots, segments: Collection[str]) -> str:
    """Return a HiveQL condition on slots that selects the rows of `segments`."""
    numbers = sorted(number for number, folder in index_slots.items() if folder in segments)
    return f"{quote(SEGMENT.name)} IN ({', '.join(map(str, numbers)) or '-1'})"


def partition_condition(columns: Sequence[Column], partitions: Iterable[Values]) -> str:
    """Return a HiveQL condition that selects at least these partitions; "" for all.

    The condition may select more partitions, because it tests each column by itself. Columns with many values, or with
    values that a server might misread, are not tested.
    """
    partitions = list(partitions)
    parts = []
    for position, column in enumerate(columns):
        texts = {values[position] for values in partitions}
        if not texts or None in texts or len(texts) > MOST_VALUES or column.type not in ("string", "int", "bigint"):
            continue
        values = [_literal(str(text), column.type) for text in texts]
        if all(values):
            parts.append(f"{quote(column.name)} IN ({', '.join(sorted(values))})")
    return " AND ".join(parts)


def _literal(text: str, type: str) -> str:
    """Return a partition value as a HiveQL literal; "" if servers might misread it."""
    if type == "string":
        return literal(text, type)
    return literal(int(text), type) if _INTEGER.fullmatch(text) else ""


def require_fresh(plan: Plan) -> None:
    """Raise Unsupported if the current version of a file is not indexed."""
    scanned = plan.files.filter(plan.files["scanned"])
    if not scanned.num_rows:
        return
    first = scanned.slice(0, 1).to_pylist()[0]
    raise Unsupported(
        f"{scanned.num_rows} files of {plan.table} are not indexed in their current version, like {first['path']} "
        f"({first['reason']}): rebuild the index (hive-bitmap rebuild), or ask the engine"
    )
