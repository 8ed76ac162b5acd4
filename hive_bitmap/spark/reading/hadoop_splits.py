"""Prune Hadoop's splits in a plan of Spark.

A split is read only if a selected block touches it. Splits are pruned for tables that only Spark reads, in sessions
with a JVM. The partitions of the physical plan are Hadoop's splits, and Spark's `PartitionPruningRDD` drops some of
them; Spark's own reader reads the remaining splits.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hive_bitmap.core.selecting.candidates import LookupResults
from hive_bitmap.core.selecting.lookup_units import Longs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)
MOST_SPLITS = 5000  # most splits to prune; the JVM takes a millisecond or two to describe each
NEARLY_ALL = 0.9  # share of the bytes; if more would remain, pruning costs more than it saves


@dataclass(frozen=True)
class Split:
    """A byte range of a file."""

    path: str
    start: int
    length: int


@dataclass(frozen=True)
class Ranges:
    """The byte ranges of the selected blocks of a file.

    `start` and `end` are arrays with an item for each block.
    """

    start: Longs
    end: Longs

    def touch(self, split: Split) -> bool:
        """Return whether a record of a selected block may belong to the split.

        A line that starts at the first byte after a split still belongs to it, as `next` in Hadoop's reader shows:
        https://github.com/apache/hadoop/blob/trunk/hadoop-mapreduce-project/hadoop-mapreduce-client/hadoop-mapreduce-client-core/src/main/java/org/apache/hadoop/mapred/LineRecordReader.java
        """
        return bool(np.any((self.start <= split.start + split.length) & (self.end >= split.start)))


def pruned(spark: SparkSession, frame: DataFrame, results: LookupResults, *, always: bool) -> DataFrame | None:
    """Restrict a query to splits that may hold selected rows.

    `frame` is a query over the table without a shuffle. Splits of files that were not looked up remain. Returns None if
    a partition of the plan is not a split, if there are more than MOST_SPLITS, or, unless `always` is set, if nearly
    all bytes would remain.
    """
    from pyspark.sql import DataFrame as Frame

    physical: Any = frame._jdf.queryExecution().toRdd()
    splits = _splits(physical.partitions())
    if splits is None:
        return None
    ranges = _ranges(results)
    selected = [n for n, split in enumerate(splits) if split.path not in ranges or ranges[split.path].touch(split)]
    total, remaining = (sum(splits[n].length for n in numbers) for numbers in (range(len(splits)), selected))
    if remaining > NEARLY_ALL * total and not always:
        return None
    log.info("%d of %d splits are read, %d of %d bytes", len(selected), len(splits), remaining, total)
    jvm: Any = spark._jvm
    chosen = jvm.scala.jdk.javaapi.CollectionConverters.asScala(jvm.java.util.HashSet(selected)).toSet()
    rdd = jvm.org.apache.spark.rdd.PartitionPruningRDD.create(physical, chosen)
    session: Any = spark._jsparkSession
    return Frame(session.internalCreateDataFrame(rdd, frame._jdf.schema(), False), spark)


def _splits(partitions: Any) -> list[Split] | None:
    """Return the partitions of a plan as splits.

    Return None if there are too many partitions, or if a partition is not a split.
    """
    if len(partitions) > MOST_SPLITS:
        return None
    splits = []
    for partition in partitions:
        if _class_name(partition) == "UnionPartition":  # a partitioned table is a union of its partitions
            partition = partition.parentPartition()
        if _class_name(partition) != "HadoopPartition":
            return None
        path, _, place = partition.inputSplit().value().toString().rpartition(":")
        start, plus, length = place.partition("+")
        if not plus:
            return None
        splits.append(Split(path, int(start), int(length)))
    return splits


def _class_name(partition: Any) -> str:
    return str(partition.getClass().getSimpleName())


def _ranges(results: LookupResults) -> Mapping[str, Ranges]:
    """Return the selected blocks of each file.

    A file is left out if it is read whole in any partition that has it.
    """
    starts: dict[str, list[Longs]] = defaultdict(list)
    ends: dict[str, list[Longs]] = defaultdict(list)
    read_whole = {file.status.path for file in results.whole_files}
    for lookup, candidates in results.pairs():
        unit = lookup.unit
        selected = np.flatnonzero(candidates.counts > 0)
        for number, path in enumerate(unit.paths):
            blocks = selected[unit.file[selected] == number]
            starts[path].append(unit.offset[blocks])
            ends[path].append(unit.offset[blocks] + unit.length[blocks])
        read_whole |= {unit.paths[number] for number in candidates.damaged}
    paths = starts.keys() - read_whole
    return {path: Ranges(np.concatenate(starts[path]), np.concatenate(ends[path])) for path in paths}
