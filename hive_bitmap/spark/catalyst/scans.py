"""The scans of a query as the optimizer rule describes them (`Question.java`), and first checks that read no index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hive_bitmap.core import stores
from hive_bitmap.core.planning.prices import Prices
from hive_bitmap.core.planning.reads import share_of_bytes
from hive_bitmap.core.planning.settings import Settings
from hive_bitmap.core.planning.strategy import Strategy
from hive_bitmap.core.table_info import Table
from hive_bitmap.spark.metastore.file_listing import format_of
from hive_bitmap.spark.registry.catalog import Index

RUNTIME_FILTER_SECONDS = 0.4  # a scan must take at least this long for a job that computes a runtime filter to pay


@dataclass(frozen=True)
class ListingSummary:
    """The bytes and number of the files that Spark reads for a scan, and the digest of their listing's text.

    `split_bytes` is the size of the largest splits of Spark's own scan; 0 if it does not tell the order of the rows.
    """

    size: int
    files: int
    digest: str
    split_bytes: int = 0

    @classmethod
    def of(cls, text: str) -> ListingSummary:
        """Return the summary from its text, four words.

        >>> ListingSummary.of("1024 2 5f2a 4096")
        ListingSummary(size=1024, files=2, digest='5f2a', split_bytes=4096)
        """
        size, files, digest, split_bytes = text.split(" ")
        return cls(int(size), int(files), digest, int(split_bytes))


@dataclass(frozen=True, kw_only=True)
class Scan:
    """A scan of a table in a query.

    `condition` is SQL text for people, `tree` the same condition as the JSON that `conditions.condition` takes.
    `columns` are those that the query needs of the table. `key_sets` are the sets of columns by which rows have to be
    counted to answer the aggregation above the scan, empty if there is none, or counts do not answer it, for the reason
    `unanswered`. `extremes` are those columns, in lower case, that are such a set of which MIN and MAX are enough.
    `indexed_known` says whether the JVM already knows which columns of the table are indexed, `native` whether Spark's
    reader can be told to read certain blocks only, `ordered` whether the query sees the order of the rows.
    `runtime_filters` are the columns that the keys of a small join side could filter, an item for each such filter.
    `listed` is None if the question does not tell it, since Spark has not listed the files yet, or does not tell them.
    `options` are those that the query gives to the reader, past those of the table. `strategy` is the one that was
    chosen for this scan, whatever the session's is; None if none was. Unless it `must_pay`, the indexes are asked
    however small the table is. `limit` is after how many rows of the condition Spark stops reading; None if it reads
    all of them.
    """

    number: int
    database: str
    table: str
    version: str
    condition: str
    tree: Sequence[Any]
    columns: tuple[str, ...]
    indexed_known: bool
    native: bool
    ordered: bool
    key_sets: tuple[tuple[str, ...], ...]
    unanswered: str | None
    runtime_filters: tuple[str, ...]
    listed: ListingSummary | None
    cores: int
    options: tuple[str, ...]
    strategy: str | None
    must_pay: bool = True
    extremes: frozenset[str] = frozenset()
    limit: int | None = None

    @classmethod
    def of(cls, number: int, fields: Mapping[str, Any], cores: int) -> Scan:
        """Return scan `number` of a question from its JSON object; `cores` is how many tasks run at once."""
        aggregate, summary = fields.get("aggregate") or {}, fields.get("listing_summary")
        return cls(
            number=number,
            database=fields["database"],
            table=fields["table"],
            version=fields["version"],
            condition=fields["condition"],
            tree=fields["tree"],
            columns=tuple(fields["columns"]),
            indexed_known=fields["indexed_known"],
            native=fields["native"],
            ordered=fields["ordered"],
            key_sets=tuple(tuple(keys) for keys in aggregate.get("key_sets", ())),
            extremes=frozenset(name.lower() for name in aggregate.get("extremes", ())),
            unanswered=aggregate.get("why"),
            runtime_filters=tuple(fields["runtime_filters"]),
            listed=None if summary is None else ListingSummary.of(summary),
            cores=cores,
            options=tuple(fields["options"]),
            strategy=fields.get("strategy"),
            must_pay=fields.get("must_pay", True),
            limit=fields.get("limit"),
        )


def why_too_small(scan: Scan, base: Table, settings: Settings, listed: ListingSummary | None) -> str | None:
    """Say why reading a scan takes less time than looking at its indexes; None if it takes more or is not known."""
    if settings.strategy is not None or not scan.must_pay or not scan.native or listed is None:
        return None
    wanted = int(_bytes_of_columns(scan, base, listed))
    if not _prices(scan, base).is_too_small(wanted, listed.files, native=True):
        return None
    return f"the {wanted:,} bytes of its columns are read in less time than planning takes"


def _prices(scan: Scan, base: Table) -> Prices:
    return Prices(format_of(base), scan.cores, stores.estimated_speed_of(base.location))


def _bytes_of_columns(scan: Scan, base: Table, listed: ListingSummary) -> float:
    """Estimate how many bytes of its files the columns of a scan take."""
    columns = (*base.columns, *base.partition_columns)
    wanted = {name.lower() for name in scan.columns}
    share = share_of_bytes([column for column in columns if column.name.lower() in wanted], columns)
    return share * listed.size


def worthwhile_runtime_filters(
    scan: Scan, base: Table, indexes: Sequence[Index], settings: Settings, listed: ListingSummary | None
) -> list[int]:
    """Return the numbers of the runtime filters worth a job: on an indexed column of a scan that takes long.

    A strategy that the session has set counts as worth it, whatever the scan takes.
    """
    if not scan.runtime_filters or settings.strategy == Strategy.FULL_SCAN or not scan.native:
        return []
    indexed = {name.lower() for index in indexes if not index.why_not for name in index.definition.column_names}
    usable = [number for number, column in enumerate(scan.runtime_filters) if column.lower() in indexed]
    size, files = (0.0, 0) if listed is None else (_bytes_of_columns(scan, base, listed), listed.files)
    pays = _prices(scan, base).scan(size, files) >= RUNTIME_FILTER_SECONDS
    return usable if pays or settings.strategy is not None else []
