"""Write the compact-index result file of a predicate, for Hive 0.7 to 2.3.

Hive reads only the splits of base files that hold an offset in this file (`hive.index.compact.file`). In some formats,
a block consists of units: lines, or parts between sync marks. Such a block may span several splits, so its own offset
is not enough: the file lists the offset of each unit with a selected row. The number of offsets grows with the rows,
so tasks compute the offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hive_bitmap.core import stores
from hive_bitmap.core.formats import FORMATS, LAYOUTS, blocks
from hive_bitmap.core.listings import file_listing
from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.planner import needs_file
from hive_bitmap.core.selecting.candidates import Lookup, LookupResults, restrict
from hive_bitmap.core.selecting.key_matches import MatchingKeys
from hive_bitmap.core.selecting.lookup_units import Longs
from hive_bitmap.core.selecting.offsets import READER_LIMIT, result_file, selected_offsets
from hive_bitmap.core.selecting.select import select
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.errors import FileChanged, Undecodable, Unsupported
from hive_bitmap.spark.metastore import jvm_reader, metastore, permission
from hive_bitmap.spark.metastore.base_files import require_one_listing, sources
from hive_bitmap.spark.querying.scanning import plan
from hive_bitmap.spark.querying.table_rows import BY_SERVER
from hive_bitmap.spark.tasks.children import Died
from hive_bitmap.spark.tasks.distribution import in_surviving_tasks, in_tasks, parallelism

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOO_MUCH = (
    "the files listed in %s have %d bytes; a reader stops with an error if its splits have more than %d: "
    "raise its hive.index.compact.query.max.size (-1: no limit)"
)
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class UnitTask:
    """The input of a task that locates rows.

    The task locates the selected rows of `lookup`, or all rows of `whole_file` if `lookup` is None. `matching_keys`
    has, for each leaf that Spark evaluated, the keys for which the leaf is TRUE. `format` is the name of the files'
    format.
    """

    format: str
    lookup: Lookup | None
    matching_keys: MatchingKeys
    whole_file: str = ""  # path of the file, if there is no lookup


def unit_offsets(
    spark: SparkSession, format: str, results: LookupResults | None, whole: Iterable[str]
) -> dict[str, list[int]]:
    """Return the offsets of the units to read, by path.

    `format` is the name of the files' format. A unit is to be read if it may have rows that `results` select, or if it
    is in one of the `whole` files. If `results` is None, only the units of the `whole` files are returned. Raises
    Unsupported if the units of a file cannot be determined, or if a file was replaced since it was planned.
    """
    tasks = [UnitTask(format, None, {}, path) for path in whole]
    if results is not None:
        for lookup, result in results.pairs():
            needed = np.flatnonzero(needs_file(result, lookup))
            pieces = np.array_split(needed, min(len(needed), parallelism(spark))) if len(needed) else []
            tasks += [UnitTask(format, restrict(lookup, files.tolist()), results.matching_keys) for files in pieces]
    offsets: dict[str, list[int]] = {}
    for result, problem in in_tasks(spark, tasks, located):
        if problem:
            raise Unsupported(problem)
        for path, numbers in result.items():
            if len(numbers):  # partitions that share a folder may each select rows of a file
                offsets[path] = sorted({*offsets.get(path, ()), *numbers.tolist()})
    return offsets


def located(task: UnitTask) -> tuple[dict[str, Longs], str]:
    """Compute the offsets of a task's files, inside the task.

    Return a pair: the offsets by path, and the reason why offsets cannot be determined ("" if they can).
    """
    try:
        return dict(_all(task) if task.lookup is None else _selected(task, task.lookup)), ""
    except Undecodable as e:
        return {}, f"the offsets of a file cannot be determined: {e}"
    except (FileChanged, FileNotFoundError) as e:
        return {}, f"a file changed after the query was planned, run it again: {e}"


def _all(task: UnitTask) -> Iterator[tuple[str, Longs]]:
    path = task.whole_file
    yield path, blocks.row_offsets(LAYOUTS[task.format], path, 0, stores.status(path).size, None)


def _selected(task: UnitTask, lookup: Lookup) -> Iterator[tuple[str, Longs]]:
    selected = select(lookup.unit, lookup.predicate, task.matching_keys)
    counts, unit = selected.counts(), lookup.unit
    for number, fingerprint in enumerate(lookup.fingerprints):
        offsets = [np.zeros(0, np.int64)]
        for block in np.flatnonzero((unit.file == number) & (counts > 0)).tolist():
            place = int(unit.offset[block]), int(unit.length[block])
            rows = selected.block_rows(block)
            offsets.append(blocks.row_offsets(LAYOUTS[task.format], fingerprint.path, *place, rows))
        if not fingerprint.confirmed():
            raise FileChanged(fingerprint.path)
        yield fingerprint.path, np.unique(np.concatenate(offsets))


def write_offsets(spark: SparkSession, table: str, predicate: str | None, path: str, *, utf8: bool = False) -> Plan:
    """Write the result file of a predicate to `path` and return its plan.

    The predicate None stands for all rows. `path` is a local path or a Hadoop path. The result file lists every block
    that may have a matching row, and all blocks of base files whose current version is not indexed. A base file without
    a line has no match. `utf8` allows base files whose paths are not ASCII, for a Hive whose JVM has UTF-8 as its
    default charset. A warning is logged if Hive might stop at its limit (hive.index.compact.query.max.size).

    Raises the errors of `plan`, and NotPermitted if only Spark may read the table. Raises Unsupported for a Spark
    Connect client, for a lake table, for a table whose blocks cannot be determined, for a base file whose path Hive
    would misread, or for a folder that Hive may list differently from Spark. If any of these errors is raised, nothing
    is written.
    """
    if not jvm_reader.available(spark):
        raise Unsupported(f"a Spark Connect client cannot compute offsets: use a classic session; {BY_SERVER}")
    base = metastore.describe(spark, table)
    if base.lake is not None:
        raise Unsupported(f"table {base.full_name} is {base.lake.kind}, which readers of result files do not support")
    permission.require_reading(spark, base, (), "the list of blocks")
    planned = plan(spark, table, predicate)
    format = file_listing.format_of(base)
    folders = sources(spark, base)
    for folder in folders:
        require_one_listing(folder)
    whole = whole_files(planned, {file.path: file for folder in folders for file in folder.files})
    if format in LAYOUTS:
        offsets = unit_offsets(spark, format, planned.candidates, whole)
    else:
        offsets = selected_offsets(planned.files, planned.blocks, all_offsets(spark, format, whole))
    content = result_file(offsets, utf8=utf8)
    selected_bytes = sum(file.size for folder in folders for file in folder.files if file.path in offsets)
    if selected_bytes > READER_LIMIT:
        log.warning(TOO_MUCH, path, selected_bytes, READER_LIMIT)
    with stores.open_output(path if ":" in path.partition("/")[0] else "file:" + stores.absolute(path)) as sink:
        sink.write(content)
    return planned


def whole_files(planned: Plan, listed: Mapping[str, FileStatus]) -> list[str]:
    """Return the files of a plan whose current version is not indexed.

    All blocks of these files must be listed in the result file. If the plan has no lookup results, return all files, or
    no files if no row satisfies the predicate. `listed` are the files of the table by path, with the tags of the store;
    the files of Spark's own listing have no tags.
    """
    if planned.candidates is None:
        nothing = planned.blocks_total == 0  # no row satisfies the predicate
        return [] if nothing else list(listed)
    changed = [
        fingerprint.path
        for lookup in planned.candidates.lookups
        for fingerprint in lookup.fingerprints
        if fingerprint.path in listed and not fingerprint.matches(listed[fingerprint.path])
    ]
    return changed + [file.status.path for file in planned.candidates.whole_files]


def all_offsets(spark: SparkSession, format: str, paths: Sequence[str]) -> dict[str, list[int]]:
    """Return the offsets of all blocks with rows, by file path.

    Tasks open the files, because a damaged file may crash the process that reads it. Raises Unsupported if the blocks
    of a file cannot be read.
    """
    results = in_surviving_tasks(spark, paths, partial(block_offsets, format))
    for path, result in zip(paths, results, strict=True):
        if isinstance(result, (str, Died)):
            why = result if isinstance(result, str) else result.reason
            raise Unsupported(f"the blocks of {path} are unknown: {why}")
    return dict(zip(paths, results, strict=True))


def block_offsets(format: str, path: str) -> list[int] | str:
    """Return the offsets of a file's nonempty blocks, or why they are unknown."""
    try:
        blocks = FORMATS[format].blocks(FORMATS[format].open_file(path))
    except Undecodable as e:
        return str(e)
    except FileNotFoundError:
        return "the file no longer exists"
    offsets: list[int] = blocks.offset[np.flatnonzero(blocks.rows)].tolist()
    return offsets
