"""The scans of a query, as the optimizer rule describes them in its question (`Question.java`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hive_bitmap import stores
from hive_bitmap.explaining.plan import FULL_SCAN
from hive_bitmap.index.catalog import Index
from hive_bitmap.metastore.file_listing import format_of
from hive_bitmap.metastore.table_info import Table
from hive_bitmap.planning.prices import scan_seconds, share_of_bytes, too_small
from hive_bitmap.planning.settings import Settings

WORTH_SECONDS = 0.4  # that a scan has to take for one more job, which reads a small side of its join first, to pay


@dataclass(frozen=True)
class Scan:
    """A scan of the question; `tree` is JSON, `columns` are those that the query takes.

    `parts` are the key sets whose counts answer the aggregation above the scan, and `means` the columns that it
    averages; empty where there is none, or where counts do not answer it. `indexed` says whether the JVM knows which
    columns are indexed, `native` whether Spark's reader can be told blocks.
    """

    number: int
    database: str
    table: str
    version: str
    condition: str
    tree: Sequence[Any]
    columns: tuple[str, ...]
    indexed: bool
    native: bool
    parts: tuple[tuple[str, ...], ...]
    means: tuple[str, ...]
    links: tuple[str, ...]
    listed: str | None
    cores: int

    @classmethod
    def of(cls, number: int, said: Mapping[str, Any], cores: int) -> Scan:
        aggregate = said.get("aggregate") or {}
        return cls(
            number,
            said["database"],
            said["table"],
            said["version"],
            said["condition"],
            said["tree"],
            tuple(said["columns"]),
            said["indexed"],
            said["native"],
            tuple(tuple(part) for part in aggregate.get("parts", ())),
            tuple(aggregate.get("means", ())),
            tuple(said["links"]),
            said.get("listed"),
            cores,
        )


@dataclass(frozen=True)
class Listed:
    """Bytes and number of the files that Spark reads for a scan, and all that Spark says of their listing, as a key."""

    size: int
    files: int
    key: str

    @classmethod
    def of(cls, question: Any, scan: Scan) -> Listed | None:
        """Asked of the JVM where the question does not hold it; None where Spark does not tell its files."""
        said: str | None = scan.listed or question.listed(scan.number)
        if said is None:
            return None
        size, files, _ = said.split(" ")
        return cls(int(size), int(files), said)


def why_small(scan: Scan, base: Table, said: Settings, listed: Listed | None) -> str | None:
    """Why a scan is not worth a look at its indexes; None where it may be, or where nobody knows."""
    if said.strategy is not None or not scan.native or listed is None:
        return None
    wanted, store = int(_bytes_of_columns(scan, base, listed)), stores.likely_speed_of(base.location)
    if not too_small(format_of(base), wanted, scan.cores, native=True, files=listed.files, store=store):
        return None
    return f"the {wanted:,} bytes of its columns are read in less time than planning takes"


def _bytes_of_columns(scan: Scan, base: Table, listed: Listed) -> float:
    """About the bytes that the columns of a scan take in its files."""
    columns = (*base.columns, *base.partition_columns)
    wanted = {name.lower() for name in scan.columns}
    share = share_of_bytes([column for column in columns if column.name.lower() in wanted], columns)
    return share * listed.size


def worthwhile_links(
    scan: Scan, base: Table, indexes: Sequence[Index], said: Settings, listed: Listed | None
) -> list[int]:
    """The links of which the small side is read first: its keys are indexed, and reading the scan takes long."""
    if not scan.links or said.strategy == FULL_SCAN or not scan.native:
        return []
    indexed = {name.lower() for index in indexes if not index.why_not for name in index.definition.column_names}
    served = [number for number, column in enumerate(scan.links) if column.lower() in indexed]
    size, files = (0.0, 0) if listed is None else (_bytes_of_columns(scan, base, listed), listed.files)
    store = stores.likely_speed_of(base.location)
    pays = scan_seconds(format_of(base), size, scan.cores, files, store) >= WORTH_SECONDS
    return served if pays or said.strategy is not None else []
