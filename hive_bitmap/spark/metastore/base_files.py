"""List the current base files of a table, by partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_bitmap.core import stores
from hive_bitmap.core.listings import serde
from hive_bitmap.core.listings.file_listing import files_in
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.table_info import Partition, Table, Values
from hive_bitmap.errors import NotFound, PartitionNotFound, Unsupported
from hive_bitmap.spark.metastore import metastore
from hive_bitmap.spark.metastore.lake_tables import log_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Spec = Mapping[str, str | None]


@dataclass(frozen=True)
class Source:
    """The listed base files of one partition, or of an unpartitioned table."""

    values: Values
    folder: str
    files: tuple[FileStatus, ...]


def sources(spark: SparkSession, base: Table) -> list[Source]:
    """Return the base files of each partition.

    The result for an unpartitioned table is one source with the values ().
    """
    return list_files(base, partitions(spark, base))


def partitions(spark: SparkSession, base: Table, values: Sequence[Values] | None = None) -> list[Partition]:
    """Return the partitions of a table, or only the partitions with these `values`.

    The result for an unpartitioned table or a lake table is one partition with the values (). Raises Unsupported for a
    partition whose read properties differ from the table's read properties.
    """
    if base.lake is not None:
        files = log_of(base.lake.kind).live_files(spark, base)
        return [Partition(values=(), location=base.location, files=files)]
    read_partitions = (
        metastore.partitions(spark, base, values)
        if base.partition_columns
        else [Partition(values=(), location=base.location)]
    )
    serde.require_same_properties(base, read_partitions)
    return read_partitions


def removed_files(spark: SparkSession, base: Table, since: float) -> frozenset[str]:
    """Return the paths of the files removed from a lake table since a time.

    `since` is in seconds since 1970. The result is empty for a table that is not a lake table.
    """
    if base.lake is None:
        return frozenset()
    return log_of(base.lake.kind).removed_files(spark, base, since)


def list_files(base: Table, of_table: Sequence[Partition]) -> list[Source]:
    """Return the base files of these partitions.

    Raises Unsupported for a folder in which some readers may find other files.
    """
    listed = iter(files_in(base, [partition.location for partition in of_table if partition.files is None]))
    return [
        Source(partition.values, partition.location, partition.files if partition.files is not None else next(listed))
        for partition in of_table
    ]


def require_one_listing(source: Source) -> None:
    """Raise Unsupported if Hive may read files that Spark does not read.

    Only the files and subfolders directly in the folder of the source are checked.
    """
    try:
        listing = stores.listing(source.folder)
    except FileNotFoundError:
        return
    known_paths = {file.path for file in source.files}
    unread = [file.path for file in listing.files if file.size and file.path not in known_paths]
    for path in [*unread, *(f"{source.folder}/{name}" for name in listing.folders)]:
        if not path.rpartition("/")[2].startswith(("_", ".")):
            raise Unsupported(
                f"Hive may read {path}, which Spark does not read: move it away, or its rows would be missed"
            )


def changed(base: Table, listed: Sequence[Source]) -> int:
    """Return how many base files have changed since the listing.

    Added and deleted files count as changed. The result is 0 for a lake table.
    """
    if base.lake is not None:
        return 0
    relisted = files_in(base, [source.folder for source in listed])
    differ = (set(before.files) ^ set(after) for before, after in zip(listed, relisted, strict=True))
    return sum(len({file.path for file in files}) for files in differ)


def matching(base: Table, spec: Spec | None, partitions_of_table: Sequence[Values]) -> list[Values]:
    """Return the partitions that match a partition spec.

    `partitions_of_table` are the values of all partitions. The spec may name only some of the partition columns.
    Without a spec, all partitions match. Raises NotFound if the spec names an unknown partition column, or if no
    partition matches.
    """
    if spec is None:
        return list(partitions_of_table)
    matches = matching_any(base, [spec], partitions_of_table)
    if not matches:
        text = ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in spec.items())
        raise PartitionNotFound(f"no partition ({text}) in table {base.full_name}")
    return matches


def matching_any(base: Table, specs: Sequence[Spec], partitions_of_table: Sequence[Values]) -> list[Values]:
    """Return the partitions that match at least one of `specs`.

    The result may be empty. `partitions_of_table` are the values of all partitions. Raises NotFound if a spec names an
    unknown partition column.
    """
    # by the positions of the columns that a spec names: the combinations of values that specs ask for
    wanted_values: dict[tuple[int, ...], set[Values]] = defaultdict(set)
    for spec in specs:
        by_position = sorted((_position(base, name), value) for name, value in spec.items())
        wanted_values[tuple(at for at, _ in by_position)].add(tuple(value for _, value in by_position))
    return [
        values
        for values in partitions_of_table
        if any(
            tuple(values[at] for at in positions) in combinations for positions, combinations in wanted_values.items()
        )
    ]


def _position(base: Table, name: str) -> int:
    names = [column.name.lower() for column in base.partition_columns]
    if name.lower() not in names:
        raise NotFound.of("partition column", name, names, f"table {base.full_name}")
    return names.index(name.lower())
