"""The base files of a table, partition by partition, as they are listed at this moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hive_bitmap import stores
from hive_bitmap.errors import NotFound, Unsupported
from hive_bitmap.metastore import metastore, serde
from hive_bitmap.metastore.file_listing import files_of
from hive_bitmap.metastore.table_info import Partition, Table, Values
from hive_bitmap.parallel import each
from hive_bitmap.stores import FileStatus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Spec = Mapping[str, str | None]


@dataclass(frozen=True)
class Source:
    """The base files of one partition as they were listed."""

    values: Values
    folder: str
    files: tuple[FileStatus, ...]


def sources(spark: SparkSession, base: Table) -> list[Source]:
    """The base files of each partition, or of the whole table under the key ()."""
    return list_files(base, partitions(spark, base))


def partitions(spark: SparkSession, base: Table) -> list[Partition]:
    """All partitions; an unpartitioned table is one, without values. Raises Unsupported for one that is read apart."""
    found = metastore.partitions(spark, base) if base.partition_columns else [Partition((), base.location)]
    serde.require_alike(base, found)
    return found


def list_files(base: Table, found: Sequence[Partition]) -> list[Source]:
    """The base files of partitions. Raises Unsupported for a folder whose layout leaves doubt."""
    return each(lambda one: Source(one.values, one.location, tuple(files_of(base, one.location))), found)


def require_one_listing(source: Source) -> None:
    """Raise Unsupported for a folder in which Hive may read rows that Spark does not."""
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
    """How many base files have arrived, changed or vanished since they were listed."""
    now = each(lambda source: replace(source, files=tuple(files_of(base, source.folder))), found)
    differ = (set(one.files) ^ set(other.files) for one, other in zip(found, now, strict=True))
    return sum(len({file.path for file in files}) for files in differ)


def matching(base: Table, spec: Spec | None, known: Sequence[Values]) -> list[Values]:
    """Those of the partitions that have the values of `spec`, which may name some of the partition columns.

    Raises NotFound for a column that is none, or where no partition matches.
    """
    if spec is None:
        return list(known)
    places = {column.name.lower(): place for place, column in enumerate(base.partition_columns)}
    for name in spec:
        if name.lower() not in places:
            raise NotFound.of("partition column", name, list(places), f"table {base.full_name}")
    asked = {places[name.lower()]: value for name, value in spec.items()}
    found = [values for values in known if all(values[place] == value for place, value in asked.items())]
    if not found:
        said = ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in spec.items())
        raise NotFound(f"partition ({said}) does not exist in table {base.full_name}")
    return found
