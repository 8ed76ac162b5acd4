"""An index in the form of Hive 0.8 to 2.3's own: files for its index table, and the DDL that registers them there.

Hive uses an index of a table, or of a partition, when a parameter of the index says that it is as new as every file in
the folder: `base_timestamp`, or the partition's values as Java prints them, holds a time in milliseconds. REBUILD would
write it. Here it is the time of the newest file that was indexed, so that a file which comes or changes later makes the
index stale for Hive, and a full scan of its queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from hive_bitmap.columns import Column
from hive_bitmap.index.definition import PREFIX, Definition
from hive_bitmap.metastore.table_info import index_table_name, literal, quote

MARKER = PREFIX + "exported"  # of an index table in Hive: the index that it was made from
TABLE_STAMP = "base_timestamp"
PARTITIONS_AT_ONCE = 100  # registered in one statement


@dataclass(frozen=True)
class HivePartition:
    """The exported rows of one partition, of the whole table under the values (): where they lie and how many they are.

    `base` is the folder of the base files, `newest_ms` the modification time of the newest of them.
    """

    values: tuple[str, ...]
    base: str
    folder: str
    newest_ms: int
    rows: int


@dataclass(frozen=True)
class HiveIndex:
    """An index under its name in Hive; `partition_columns` are those of the base table, `root` holds all folders."""

    definition: Definition
    name: str
    root: str
    partition_columns: tuple[Column, ...]
    partitions: tuple[HivePartition, ...]

    @property
    def index_table(self) -> str:
        """The table of the index in Hive, in the base table's database."""
        return index_table_name(self.definition.database, self.definition.table, self.name)

    @property
    def source(self) -> str:
        """`<db>.<table>.<index>` of what it was made from: the value of MARKER."""
        return f"{self.definition.full_table}.{self.definition.name}"

    @property
    def rows(self) -> int:
        return sum(partition.rows for partition in self.partitions)


def statements(index: HiveIndex) -> list[str]:
    """The HiveQL that registers an exported index in a Hive that has none of its name."""
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
    """The HiveQL that removes it from Hive, and its files."""
    return f"DROP INDEX {quote(index.name)} ON {_base(index)}"


def script(index: HiveIndex) -> str:
    """A script for beeline or any other client of that Hive."""
    folders = sorted({partition.base for partition in index.partitions})
    head = [
        f"-- Index {index.source}, for Hive 0.8 to 2.3. The base table must be the same there, its files in",
        *(f"--   {folder}" for folder in islice(folders, 3)),
        *([f"--   and {len(folders) - 3} more folders"] if folders[3:] else []),
        f"-- Where Hive has an older export: {drop(index)};",
    ]
    return "\n".join([*head, *(f"{statement};" for statement in statements(index)), ""])


def stamp_name(columns: Sequence[Column], values: Sequence[str]) -> str:
    """The parameter that holds the time of a partition: its values as Java prints a map.

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
    found = []
    for start in range(0, len(index.partitions) if columns else 0, PARTITIONS_AT_ONCE):
        some = index.partitions[start : start + PARTITIONS_AT_ONCE]
        specs = (
            ", ".join(
                f"{quote(column.name)}={literal(value)}" for column, value in zip(columns, one.values, strict=True)
            )
            for one in some
        )
        places = " ".join(
            f"PARTITION ({spec}) LOCATION {literal(one.folder)}" for spec, one in zip(specs, some, strict=True)
        )
        stamps = {stamp_name(columns, one.values): one.newest_ms for one in some}
        found.append(f"ALTER TABLE {quote(index.definition.database)}.{quote(index.index_table)} ADD {places}")
        found.append(f"ALTER INDEX {quote(index.name)} ON {_base(index)} SET{_idxproperties(stamps)}")
    return found
