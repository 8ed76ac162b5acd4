"""Offsets for compact-index readers of formats whose blocks are runs of smaller units: lines, parts between sync marks.

A block may reach over several splits of a reader, so its own offset is not enough: each unit with a selected row is
listed. That grows with the rows, so it is done in tasks.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hive_bitmap.errors import FileChanged, Undecodable, Unsupported
from hive_bitmap.formats import LAYOUTS, storage, units
from hive_bitmap.index.tasks import distribute, parallelism
from hive_bitmap.query.candidates import Lookup, restrict
from hive_bitmap.query.keys import Answers
from hive_bitmap.query.planner import needs_file
from hive_bitmap.query.prepare import Reading
from hive_bitmap.query.select import select
from hive_bitmap.query.units import Longs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOUND = "path string, offsets array<bigint>, problem string"
_FOUND = pa.schema([("path", pa.string()), ("offsets", pa.list_(pa.int64())), ("problem", pa.string())])


@dataclass(frozen=True)
class UnitTask:
    """The selected rows of the files of a lookup, or, without one, all rows of one file; it travels to a task."""

    format: str
    lookup: Lookup | None
    answers: Answers
    whole: str = ""


def unit_offsets(
    spark: SparkSession, format: str, reading: Reading | None, whole: Iterable[str]
) -> dict[str, list[int]]:
    """For each file that may hold selected rows, the offsets of the units that do; of the `whole` files those of all.

    Raises Unsupported for a file whose units cannot be told, or that was replaced since it was planned.
    """
    tasks = [UnitTask(format, None, {}, path) for path in whole]
    if reading is not None:
        for lookup, found in zip(reading.work.lookups, reading.work.found, strict=True):
            needed = np.flatnonzero(needs_file(found, lookup))
            pieces = np.array_split(needed, min(len(needed), parallelism(spark))) if len(needed) else []
            tasks += [UnitTask(format, restrict(lookup, files.tolist()), reading.answers) for files in pieces]
    if not tasks:
        return {}
    rows = distribute(spark, tasks).mapInArrow(_find, FOUND).collect()
    for _, _, problem in rows:
        if problem:
            raise Unsupported(problem)
    return {path: offsets for path, offsets, _ in rows if offsets}


def _find(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for item in batch.column(0):
            for row in _rows(pickle.loads(item.as_py())):
                yield pa.record_batch([pa.array([value], f.type) for value, f in zip(row, _FOUND, strict=True)], _FOUND)


def _rows(task: UnitTask) -> Iterator[tuple[str, Longs, str]]:
    try:
        for path, offsets in _selected(task, task.lookup) if task.lookup is not None else _all(task):
            yield path, offsets, ""
    except Undecodable as e:
        yield "", np.zeros(0, np.int64), f"the offsets of a file cannot be told: {e}"
    except (FileChanged, FileNotFoundError) as e:
        yield "", np.zeros(0, np.int64), f"a file changed after the query was planned, run it again: {e}"


def _all(task: UnitTask) -> Iterator[tuple[str, Longs]]:
    yield task.whole, units.row_offsets(LAYOUTS[task.format], task.whole, 0, storage.status(task.whole).size, None)


def _selected(task: UnitTask, lookup: Lookup) -> Iterator[tuple[str, Longs]]:
    selected = select(lookup.unit, lookup.predicate, task.answers)
    counts, unit = selected.counts(), lookup.unit
    for number, fingerprint in enumerate(lookup.fingerprints):
        found = [np.zeros(0, np.int64)]
        for block in np.flatnonzero((unit.file == number) & (counts > 0)).tolist():
            place = int(unit.offset[block]), int(unit.length[block])
            rows = selected.block_rows(block)
            found.append(units.row_offsets(LAYOUTS[task.format], fingerprint.path, *place, rows))
        if not fingerprint.confirmed():
            raise FileChanged(fingerprint.path)
        yield fingerprint.path, np.unique(np.concatenate(found))
