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

FOUND = "path string, offsets array<bigint>"


@dataclass(frozen=True)
class UnitTask:
    """The selected rows of files of a lookup, or, without one, all rows of these paths; it travels to a task."""

    format: str
    lookup: Lookup | None
    answers: Answers
    whole: tuple[str, ...] = ()


def unit_offsets(spark: SparkSession, reading: Reading) -> dict[str, list[int]]:
    """For each file that may hold selected rows, the offsets of the units that do.

    Raises FileChanged for a file that was replaced since it was planned, and Unsupported for one whose units cannot be
    told.
    """
    tasks = [UnitTask(reading.format, None, {}, (file.status.path,)) for file in reading.work.whole]
    for lookup, found in zip(reading.work.lookups, reading.work.found, strict=True):
        needed = np.flatnonzero(needs_file(found, lookup))
        pieces = np.array_split(needed, min(len(needed), parallelism(spark))) if len(needed) else []
        tasks += [UnitTask(reading.format, restrict(lookup, files.tolist()), reading.answers) for files in pieces]
    return _run(spark, tasks)


def all_unit_offsets(spark: SparkSession, format: str, paths: Iterable[str]) -> dict[str, list[int]]:
    """The offsets of all units of these files. Raises as `unit_offsets` does."""
    return _run(spark, [UnitTask(format, None, {}, (path,)) for path in paths])


def _run(spark: SparkSession, tasks: list[UnitTask]) -> dict[str, list[int]]:
    if not tasks:
        return {}
    rows = distribute(spark, tasks).mapInArrow(_find, FOUND).collect()
    broken = [row[0] for row in rows if row[1] is None]
    if broken:
        raise Unsupported(broken[0])
    return {path: offsets for path, offsets in rows if offsets}


def _find(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for item in batch.column(0):
            for path, offsets in _offsets(pickle.loads(item.as_py())):
                yield pa.record_batch(
                    [pa.array([path]), pa.array([offsets], pa.list_(pa.int64()))], ["path", "offsets"]
                )


def _offsets(task: UnitTask) -> Iterator[tuple[str, Longs | None]]:
    """Paths and their offsets; what is wrong, instead of a path, comes with None."""
    try:
        layout = LAYOUTS[task.format]
        for path in task.whole:
            yield path, units.row_offsets(layout, path, 0, storage.status(path).size, None)
        if task.lookup is not None:
            yield from _selected(task, task.lookup)
    except (Undecodable, FileChanged) as e:
        yield str(e), None
    except FileNotFoundError as e:
        yield f"{e.filename} was deleted after the query was planned: run it again", None


def _selected(task: UnitTask, lookup: Lookup) -> Iterator[tuple[str, Longs]]:
    selected = select(lookup.unit, lookup.predicate, task.answers)
    counts, unit = selected.counts(), lookup.unit
    for number, fingerprint in enumerate(lookup.fingerprints):
        found = [np.zeros(0, np.int64)]
        for block in np.flatnonzero((unit.file == number) & (counts > 0)).tolist():
            place = int(unit.offset[block]), int(unit.length[block])
            found.append(units.row_offsets(LAYOUTS[task.format], fingerprint.path, *place, selected.block_rows(block)))
        if not fingerprint.confirmed():
            raise FileChanged(f"{fingerprint.path} was replaced after the query was planned: run it again")
        yield fingerprint.path, np.unique(np.concatenate(found))
