"""Find the offsets of lines or sync-marked parts in tasks.

Readers of compact indexes need them for formats with blocks that consist of such units. A block may span several splits
of a reader, so its own offset does not suffice: the offset of each unit with a selected row is listed. The number of
offsets grows with the rows, so tasks find them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hive_bitmap.core import stores
from hive_bitmap.core.formats import LAYOUTS, units
from hive_bitmap.core.planning.planner import needs_file
from hive_bitmap.core.selecting.candidates import Lookup, LookupResults, restrict
from hive_bitmap.core.selecting.key_matches import MatchingKeys
from hive_bitmap.core.selecting.lookup_units import Longs
from hive_bitmap.core.selecting.select import select
from hive_bitmap.errors import FileChanged, Undecodable, Unsupported
from hive_bitmap.spark.tasks.distribution import in_tasks, parallelism

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class UnitTask:
    """The input of a task that locates rows.

    It locates the selected rows of `lookup`, or all rows of `whole_file`.
    """

    format: str
    lookup: Lookup | None
    matching_keys: MatchingKeys
    whole_file: str = ""  # path of the file, if there is no lookup


def unit_offsets(
    spark: SparkSession, format: str, results: LookupResults | None, whole: Iterable[str]
) -> dict[str, list[int]]:
    """Return the offsets of the units to read, by path.

    These are the units that may have selected rows, and all units of the `whole` files. Raises Unsupported if the units
    of a file cannot be determined, or if it was replaced since it was planned.
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
    """Return the offsets of each file of a task, and a problem.

    The problem says why the offsets cannot be determined, or is "". This function runs in the task.
    """
    try:
        return dict(_all(task) if task.lookup is None else _selected(task, task.lookup)), ""
    except Undecodable as e:
        return {}, f"the offsets of a file cannot be determined: {e}"
    except (FileChanged, FileNotFoundError) as e:
        return {}, f"a file changed after the query was planned, run it again: {e}"


def _all(task: UnitTask) -> Iterator[tuple[str, Longs]]:
    path = task.whole_file
    yield path, units.row_offsets(LAYOUTS[task.format], path, 0, stores.status(path).size, None)


def _selected(task: UnitTask, lookup: Lookup) -> Iterator[tuple[str, Longs]]:
    selected = select(lookup.unit, lookup.predicate, task.matching_keys)
    counts, unit = selected.counts(), lookup.unit
    for number, fingerprint in enumerate(lookup.fingerprints):
        offsets = [np.zeros(0, np.int64)]
        for block in np.flatnonzero((unit.file == number) & (counts > 0)).tolist():
            place = int(unit.offset[block]), int(unit.length[block])
            rows = selected.block_rows(block)
            offsets.append(units.row_offsets(LAYOUTS[task.format], fingerprint.path, *place, rows))
        if not fingerprint.confirmed():
            raise FileChanged(fingerprint.path)
        yield fingerprint.path, np.unique(np.concatenate(offsets))
