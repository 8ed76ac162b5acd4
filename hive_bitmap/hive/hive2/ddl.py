"""Write the DDL that registers an exported index in Hive 0.8 to 2.3.

Hive uses an index only if a parameter of the index has a time that is not older than any base file. For a table, the
parameter is `base_timestamp`. For a partition, the name of the parameter consists of the partition columns and their
values, as Java prints a map (`stamp_name`). The time is in milliseconds, and usually written by Hive's own REBUILD. The
DDL of this module writes the modification time of the newest base file. If a file is added or changed later, the index
is stale for Hive, and Hive makes a full scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import PREFIX, Definition
from hive_bitmap.core.table_info import index_table_name, literal, quote

MARKER = PREFIX + "exported"  # property of an index table in Hive: the index that was exported
TABLE_STAMP = "base_timestamp"
PARTITIONS_AT_ONCE = 100  # partitions registered by one statement


@dataclass(frozen=True, kw_only=True)
class HivePartition:
    """An exported partition.

    An unpartitioned table is one partition with the values (). `base` is the folder of the base files, and `newest_ms`
    the modification time of the newest base file (milliseconds since 1970). `folder` is the folder of the exported
    files, and `rows` the number of rows in these files.
    """

    values: tuple[str, ...]
    base: str
    folder: str
    newest_ms: int
    rows: int


@dataclass(frozen=True, kw_only=True)
class HiveIndex:
    """An exported index.

    `name` is the name of the index in Hive. `root` is the folder that holds the folders of its `partitions`.
    `partition_columns` are the partition columns of the base table.
    """

    definition: Definition
    name: str
    root: str
    partition_columns: tuple[Column, ...]
    partitions: tuple[HivePartition, ...]

    @property
    def index_table(self) -> str:
        """The name of the index table in Hive, in the base table's database."""
        return index_table_name(self.definition.database, self.definition.table, self.name)

    @property
    def source(self) -> str:
        """`<db>.<table>.<index>` of the index that was exported: the value of MARKER."""
        return f"{self.definition.full_table}.{self.definition.name}"

    @property
    def rows(self) -> int:
        return sum(partition.rows for partition in self.partitions)


def statements(index: HiveIndex) -> list[str]:
    """Return the HiveQL statements that register an exported index.

    Hive must not have an index with this name.
    """
    definition = index.definition
    columns = ", ".join(quote(name) for name in definition.column_names)
    stamps = {} if index.partition_columns else {TABLE_STAMP: index.partitions[0].newest_ms}
    location = index.root if index.partition_columns else index.partitions[0].folder
    create = (
        f"CREATE INDEX {quote(index.name)} ON TABLE {_base(index)} ({columns}) AS {literal(definition.type)} "
        f"WITH DEFERRED REBUILD{_idxproperties(stamps)} STORED AS PARQUET LOCATION {literal(location)} "
        f"TBLPROPERTIES ({literal(MARKER)}={literal(index.source)})"
    )
    return [create, *_add_partitions(index)]


def drop(index: HiveIndex) -> str:
    """Return the HiveQL statement that drops an exported index, with its files."""
    return f"DROP INDEX {quote(index.name)} ON {_base(index)}"


def script(index: HiveIndex) -> str:
    """Return the statements as a commented script for a Hive client."""
    folders = sorted({partition.base for partition in index.partitions})
    head = [
        f"-- Index {index.source}, for Hive 0.8 to 2.3. The base table must be the same there, its files in",
        *(f"--   {folder}" for folder in islice(folders, 3)),
        *([f"--   and {len(folders) - 3} more folders"] if folders[3:] else []),
        f"-- If Hive has an older export: {drop(index)};",
    ]
    return "\n".join([*head, *(f"{statement};" for statement in statements(index)), ""])


def stamp_name(columns: Sequence[Column], values: Sequence[str]) -> str:
    """Return the name of a partition's time parameter.

    The name has the partition columns and their values, as Java prints a map.

    >>> stamp_name([Column("p", "string"), Column("q", "int")], ["a b", "1"])
    '{p=a b, q=1}'
    """
    return "{" + ", ".join(f"{column.name}={value}" for column, value in zip(columns, values, strict=True)) + "}"


def _base(index: HiveIndex) -> str:
    return f"{quote(index.definition.database)}.{quote(index.definition.table)}"


def _idxproperties(stamps: dict[str, int]) -> str:
    listed = ", ".join(f"{literal(name)}={literal(str(value))}" for name, value in stamps.items())
    return f" IDXPROPERTIES ({listed})" if stamps else ""


def _add_partitions(index: HiveIndex) -> list[str]:
    columns = index.partition_columns
    generated = []
    for start in range(0, len(index.partitions) if columns else 0, PARTITIONS_AT_ONCE):
        chunk = index.partitions[start : start + PARTITIONS_AT_ONCE]
        specs = (
            ", ".join(
                f"{quote(column.name)}={literal(value)}"
                for column, value in zip(columns, partition.values, strict=True)
            )
            for partition in chunk
        )
        places = " ".join(
            f"PARTITION ({spec}) LOCATION {literal(partition.folder)}"
            for spec, partition in zip(specs, chunk, strict=True)
        )
        stamps = {stamp_name(columns, partition.values): partition.newest_ms for partition in chunk}
        generated.append(f"ALTER TABLE {quote(index.definition.database)}.{quote(index.index_table)} ADD {places}")
        generated.append(f"ALTER INDEX {quote(index.name)} ON {_base(index)} SET{_idxproperties(stamps)}")
    return generated
