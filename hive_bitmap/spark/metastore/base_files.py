"""List the current base files of a table, by partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from hive_bitmap.core import stores
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.table_info import Partition, Table, Values
from hive_bitmap.errors import NotFound, PartitionNotFound, Unsupported
from hive_bitmap.spark.metastore import delta_log, iceberg_log, lake_tables, metastore, serde
from hive_bitmap.spark.metastore.file_listing import files_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Spec = Mapping[str, str | None]


@dataclass(frozen=True)
class Source:
    """The base files of one partition, or of an unpartitioned table, as they were listed."""

    values: Values
    folder: str
    files: tuple[FileStatus, ...]


def sources(spark: SparkSession, base: Table) -> list[Source]:
    """Return the base files of each partition; an unpartitioned table is one source with the values ()."""
    return list_files(base, partitions(spark, base))


def partitions(spark: SparkSession, base: Table) -> list[Partition]:
    """Return all partitions; an unpartitioned table, or one of a lake, is one partition with the values ().

    Raises Unsupported for a partition that is read by other properties than its table.
    """
    if base.lake is not None:
        live_files = iceberg_log.live_files if base.lake.kind == lake_tables.ICEBERG else delta_log.live_files
        return [Partition(values=(), location=base.location, files=live_files(spark, base))]
    found = (
        metastore.partitions(spark, base) if base.partition_columns else [Partition(values=(), location=base.location)]
    )
    serde.require_same_properties(base, found)
    return found


def removed_files(spark: SparkSession, base: Table, since: float) -> frozenset[str]:
    """Return the paths of files that the log of a lake table has removed since then, in seconds since 1970."""
    if base.lake is None:
        return frozenset()
    removed = iceberg_log.removed_files if base.lake.kind == lake_tables.ICEBERG else delta_log.removed_files
    return removed(spark, base, since)


def list_files(base: Table, found: Sequence[Partition]) -> list[Source]:
    """Return the base files of these partitions; raise Unsupported for a folder that readers might list differently."""
    return map_parallel(partial(list_partition, base), found)


def list_partition(base: Table, one: Partition) -> Source:
    """Return the base files of a partition, by one listing; raise Unsupported as `list_files`."""
    files = one.files if one.files is not None else tuple(files_of(base, one.location))
    return Source(one.values, one.location, files)


def require_one_listing(source: Source) -> None:
    """Raise Unsupported if Hive may read rows in the folder of this source that Spark does not read."""
    try:
        there = stores.listing(source.folder)
    except FileNotFoundError:
        return
    known = {file.path for file in source.files}
    others = [file.path for file in there.files if file.size and file.path not in known]
    for path in [*others, *(f"{source.folder}/{name}" for name in there.folders)]:
        if not path.rpartition("/")[2].startswith(("_", ".")):
            raise Unsupported(f"Hive may read {path}, which Spark does not; move it away, or its rows would be missed")


def changed(base: Table, found: Sequence[Source]) -> int:
    """Return how many base files were added, changed or deleted since they were listed; 0 for a lake table."""
    if base.lake is not None:
        return 0
    now = map_parallel(lambda source: replace(source, files=tuple(files_of(base, source.folder))), found)
    differ = (set(one.files) ^ set(other.files) for one, other in zip(found, now, strict=True))
    return sum(len({file.path for file in files}) for files in differ)


def matching(base: Table, spec: Spec | None, known: Sequence[Values]) -> list[Values]:
    """Return the partitions that match `spec`, a full or partial partition spec; all partitions if it is None.

    Raises NotFound if `spec` names an unknown partition column, or no partition matches.
    """
    if spec is None:
        return list(known)
    found = matching_any(base, [spec], known)
    if not found:
        said = ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in spec.items())
        raise PartitionNotFound(f"no partition ({said}) in table {base.full_name}")
    return found


def matching_any(base: Table, specs: Sequence[Spec], known: Sequence[Values]) -> list[Values]:
    """Return the partitions that match at least one of `specs`; that none does is no error.

    Raises NotFound if one of them names an unknown partition column.
    """
    wanted: dict[tuple[int, ...], set[Values]] = defaultdict(set)  # the values of the columns at these positions
    for spec in specs:
        by_position = sorted((_position(base, name), value) for name, value in spec.items())
        wanted[tuple(at for at, _ in by_position)].add(tuple(value for _, value in by_position))
    return [
        values
        for values in known
        if any(tuple(values[at] for at in positions) in some for positions, some in wanted.items())
    ]


def _position(base: Table, name: str) -> int:
    names = [column.name.lower() for column in base.partition_columns]
    if name.lower() not in names:
        raise NotFound.of("partition column", name, names, f"table {base.full_name}")
    return names.index(name.lower())
