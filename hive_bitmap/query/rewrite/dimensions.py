"""The dimension side first: the keys of a small table's wanted rows become a list that the larger table's index takes.

The rows are read by Spark when the query is given, and take the small table's place in it. So the list and what Spark
joins with are the same rows whatever happens to the table afterwards: no row that joins can be missing from the list.
"""

from __future__ import annotations

import logging
import math
import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.columns import Column
from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.index.catalog import Index
from hive_bitmap.index.metastore import Table, quote
from hive_bitmap.index.sources import sources
from hive_bitmap.index.tasks import parallelism
from hive_bitmap.query import settings
from hive_bitmap.query.names import Names
from hive_bitmap.query.nodes import FALSE, In, Predicate, Value
from hive_bitmap.query.planner import FULL_SCAN, full_scan
from hive_bitmap.query.prices import scan_seconds, share_of_bytes
from hive_bitmap.query.rewrite.choices import Choice
from hive_bitmap.query.rewrite.demands import ScanDemands
from hive_bitmap.query.rewrite.links import Link, links
from hive_bitmap.query.rewrite.tables import Seen, left_alone, sql_name
from hive_bitmap.query.rewrite.tree import Scan
from hive_bitmap.query.rewrite.understood import mentioned, predicate
from hive_bitmap.query.rewrite.words import Words
from hive_bitmap.versions import data_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
MOST_BYTES, MOST_ROWS = 32 << 20, 10_000  # of a table that is read first: of its files, and of its wanted rows
TIMES = 10  # so many times as large the other table has to be
WORTH_SECONDS = 0.4  # that a scan of the other table has to take, for one more job to pay
_EXACT = re.compile(r"tinyint|smallint|int|bigint|boolean|date|string|varchar\(\d+\)|decimal\(\d+, ?\d+\)")
_LOCAL = re.compile(rf"{_EXACT.pattern}|float|double|timestamp|timestamp_ntz|binary")
Indexed = Mapping[Scan, tuple[Table, list[Index]]]


@dataclass(frozen=True)
class KeyList:
    """The keys of a column that can join, and the table that they come from."""

    column: str
    keys: tuple[Value, ...]
    source: str

    def __str__(self) -> str:
        return f"{self.column} is one of {len(self.keys):,} keys of {self.source}"

    @property
    def condition(self) -> Predicate:
        return In(self.column, self.keys) if self.keys else FALSE


@dataclass(frozen=True)
class Dimensions:
    """What stands for the scans that were read first, and the key lists of others."""

    choices: Mapping[Scan, Choice]
    lists: Mapping[Scan, Sequence[KeyList]]


def read_dimensions(
    spark: SparkSession,
    words: Words,
    scans: Sequence[ScanDemands],
    indexed: Indexed,
    seen: Seen,
    conf: Mapping[str, str],
) -> Dimensions:
    """Key lists for the indexed scans, where reading another scan of the statement first pays.

    And always where a setting asks for a strategy that is no full scan.
    """
    said = settings.read(conf)
    if not said.enabled or said.strategy == FULL_SCAN:
        return Dimensions({}, {})
    reader = _Reader(spark, words, indexed, seen, conf)
    lists: dict[Scan, list[KeyList]] = defaultdict(list)
    for one in scans:
        if one.scan not in indexed or one.scan in reader.choices:
            continue
        for link in links(words, one, scans):
            made = None if link.other.scan in lists else reader.key_list(one, link)
            if made is not None and made not in lists[one.scan]:
                log.info("%s of %s", made, one.scan.name[-1])
                lists[one.scan].append(made)
    return Dimensions(reader.choices, {scan: made for scan, made in lists.items() if made})


class _Reader:
    """Reads scans, each at most once."""

    def __init__(
        self, spark: SparkSession, words: Words, indexed: Indexed, seen: Seen, conf: Mapping[str, str]
    ) -> None:
        self._spark, self._words, self._indexed, self._seen, self._conf = spark, words, indexed, seen, conf
        self._always = settings.read(conf).strategy is not None
        self._rows: dict[Scan, pa.Table | None] = {}
        self._sizes: dict[str, float] = {}
        self.choices: dict[Scan, Choice] = {}

    def key_list(self, one: ScanDemands, link: Link) -> KeyList | None:
        """The keys that a link leaves to a scan; None where the two sides are not alike, or it would not pay."""
        base, indexes = self._indexed[one.scan]
        column = _column(base, one.scan, link.path)
        served = {name.lower() for index in indexes if not index.why_not for name in index.definition.column_names}
        if column is None or column.name.lower() not in served or not link.other.demands:
            return None
        other = self._table(link.other.scan)
        key = None if other is None else _column(other, link.other.scan, link.other_path)
        if other is None or key is None or not _alike(column, key) or not self._reaches(link):
            return None
        if link.other.scan not in self._rows and self._pays(one, base, other):
            self._rows[link.other.scan] = self._read(link.other, other)
        rows = self._rows.get(link.other.scan)
        values = None if rows is None else _values(rows[key.name])
        return None if values is None else KeyList(column.name, values, other.name)

    def _reaches(self, link: Link) -> bool:
        """Whether the first name of a link means its scan, and no column of a source that is nearer."""
        known = [self._seen.columns(source) if isinstance(source, Scan) else None for source in link.nearer]
        return all(columns is not None and not Names(columns, None).holds(link.path[0]) for columns in known)

    def _table(self, scan: Scan) -> Table | None:
        """The table of a scan, if it is one of files in the session's own catalog."""
        found = self._indexed.get(scan) or self._seen.found(sql_name(scan))
        is_ours = found is not None and found[0].kind in ("MANAGED", "EXTERNAL") and found[0].location
        return found[0] if found and is_ours else None

    def _pays(self, one: ScanDemands, base: Table, other: Table) -> bool:
        small = self._size(other)
        if self._always or small > MOST_BYTES:
            return small <= MOST_BYTES
        columns = (*base.columns, *base.partition_columns)
        needed = [column for column in columns if column.name in mentioned(self._words, columns, whole=one.star)]
        large = self._size(base) * share_of_bytes(needed, columns)
        return large > TIMES * small and scan_seconds(int(large), parallelism(self._spark)) > WORTH_SECONDS

    def _size(self, table: Table) -> float:
        """Bytes of a table's files; infinite where they cannot be listed."""
        if table.full_name not in self._sizes:
            try:
                size: float = sum(file.size for source in sources(self._spark, table) for file in source.files)
            except (HiveBitmapError, OSError):
                size = math.inf
            self._sizes[table.full_name] = size
        return self._sizes[table.full_name]

    def _read(self, one: ScanDemands, table: Table) -> pa.Table | None:
        """The rows of a scan that its demands leave; None if they are too many, or not of plain types."""
        from pyspark.errors import PySparkException

        started, scan = time.monotonic(), one.scan
        columns = (*table.columns, *table.partition_columns)
        wanted = mentioned(self._words, columns, whole=one.star)
        condition = predicate(one.demands, columns, scan.alias)
        plain = all(_LOCAL.fullmatch(column.type) for column in columns if column.name in wanted)
        if condition is None or not plain or left_alone(self._words, scan, self._conf):
            return None
        try:
            frame = self._spark.table(sql_name(scan)).alias(scan.alias).where(condition).select(*map(quote, wanted))
            rows = frame.limit(MOST_ROWS + 1).toArrow()
            if rows.num_rows > MOST_ROWS:
                return None
            local = data_frame(self._spark, rows, frame.schema)
        except (PySparkException, pa.ArrowException) as e:
            log.info("%s is not read first: %s", table.full_name, str(e).partition("\n")[0])
            return None
        reason = f"its {rows.num_rows:,} wanted rows were read first, for the keys that can join"
        tail = "" if scan.aliased else f" AS {quote(scan.alias)}"
        plan = full_scan(table.full_name, condition, reason)
        self.choices[scan] = Choice(
            plan, scan.start, scan.end, "", tail, time.monotonic() - started, local, scan.alias, read_first=True
        )
        return rows


def _column(table: Table, scan: Scan, path: Sequence[str]) -> Column | None:
    return Names((*table.columns, *table.partition_columns), scan.alias).resolve(path)


def _alike(column: Column, other: Column) -> bool:
    """Whether Spark compares two columns as they are, and equal values are one key of an index."""
    texts = column.type.startswith(("string", "varchar(")) and other.type.startswith(("string", "varchar("))
    return all(_EXACT.fullmatch(one.type) for one in (column, other)) and (column.type == other.type or texts)


def _values(column: pa.ChunkedArray) -> tuple[Value, ...] | None:
    """The distinct values that can be equal to something; None if one of them is nothing that Python knows."""
    try:
        return tuple(pc.unique(column.drop_null()).to_pylist())
    except (ValueError, OverflowError):
        return None
