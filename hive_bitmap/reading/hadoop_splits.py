"""Spark's own reader over some splits of a table: what the others hold is not read, what these hold is as Spark has it.

For tables that only Spark reads, in sessions with a JVM at hand. The partitions of the physical plan, which are the
splits of Hadoop, are dropped where no selected block touches them (Spark's `PartitionPruningRDD`).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hive_bitmap.selecting.candidates import LookupResults
from hive_bitmap.selecting.lookup_units import Longs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)
MOST_SPLITS = 5000  # asking the JVM for one takes a millisecond or two
NEARLY_ALL = 0.9  # of the bytes: then choosing costs more than it saves


@dataclass(frozen=True)
class Split:
    """A stretch of a file, in bytes."""

    path: str
    start: int
    length: int


@dataclass(frozen=True)
class Ranges:
    """The selected blocks of a file."""

    start: Longs
    end: Longs

    def touch(self, split: Split) -> bool:
        """Whether a unit of any block may be the split's; a line that starts at the end of a split is."""
        return bool(np.any((self.start <= split.start + split.length) & (self.end >= split.start)))


def pruned(spark: SparkSession, frame: DataFrame, work: LookupResults, *, always: bool) -> DataFrame | None:
    """The rows of `frame`, a narrow query over the table, of the splits that may hold selected rows.

    Splits of files that no lookup knows are kept. None where the plan has other partitions than splits, has too many,
    or, unless it is to be `always`, where nearly all of their bytes are kept.
    """
    from pyspark.sql import DataFrame as Frame

    physical: Any = frame._jdf.queryExecution().toRdd()
    splits = _splits(physical.partitions())
    if splits is None:
        return None
    ranges = _ranges(work)
    kept = [n for n, split in enumerate(splits) if split.path not in ranges or ranges[split.path].touch(split)]
    total, read = (sum(splits[n].length for n in numbers) for numbers in (range(len(splits)), kept))
    if read > NEARLY_ALL * total and not always:
        return None
    log.info("%d of %d splits are read, %d of %d bytes", len(kept), len(splits), read, total)
    jvm: Any = spark._jvm
    chosen = jvm.scala.jdk.javaapi.CollectionConverters.asScala(jvm.java.util.HashSet(kept)).toSet()
    rdd = jvm.org.apache.spark.rdd.PartitionPruningRDD.create(physical, chosen)
    session: Any = spark._jsparkSession
    return Frame(session.internalCreateDataFrame(rdd, frame._jdf.schema(), False), spark)


def _splits(partitions: Any) -> list[Split] | None:
    """What the partitions of a plan read; None where one is no split of a file."""
    if len(partitions) > MOST_SPLITS:
        return None
    found = []
    for partition in partitions:
        if _kind(partition) == "UnionPartition":  # of the partitions of a table
            partition = partition.parentPartition()
        if _kind(partition) != "HadoopPartition":
            return None
        path, _, place = partition.inputSplit().value().toString().rpartition(":")
        start, plus, length = place.partition("+")
        if not plus:
            return None
        found.append(Split(path, int(start), int(length)))
    return found


def _kind(partition: Any) -> str:
    return str(partition.getClass().getSimpleName())


def _ranges(work: LookupResults) -> Mapping[str, Ranges]:
    """The selected blocks of each file that is looked up in all partitions that have it."""
    starts: dict[str, list[Longs]] = defaultdict(list)
    ends: dict[str, list[Longs]] = defaultdict(list)
    unknown = {file.status.path for file in work.whole}
    for lookup, found in zip(work.lookups, work.found, strict=True):
        unit = lookup.unit
        selected = np.flatnonzero(found.counts > 0)
        for number, path in enumerate(unit.paths):
            mine = selected[unit.file[selected] == number]
            starts[path].append(unit.offset[mine])
            ends[path].append(unit.offset[mine] + unit.length[mine])
        unknown |= {unit.paths[number] for number in found.damaged}
    known = starts.keys() - unknown
    return {path: Ranges(np.concatenate(starts[path]), np.concatenate(ends[path])) for path in known}
