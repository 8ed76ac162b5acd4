"""Describe the scans of a query, and check which scans are worth a lookup.

The optimizer rule sends the description (`Question.java`), with the condition as JSON (`Conditions.java`). The checks
decide whether a scan is too small for indexes, and which of its runtime filters are worth a job. The checks read no
index. All functions here are pure, and need no Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from typing import Any

from hive_bitmap.core import stores
from hive_bitmap.core.answering.first_groups import Top
from hive_bitmap.core.answering.group_summaries import GroupSummary
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.aggregate_columns import FUNCTIONS, Measure
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.listings.file_listing import format_of
from hive_bitmap.core.planning.learnt_prices import FROZEN, PRICES
from hive_bitmap.core.planning.prices import Prices, share_of_bytes
from hive_bitmap.core.planning.settings import Settings
from hive_bitmap.core.planning.strategy import Strategy
from hive_bitmap.core.predicates.nodes import (
    And,
    Compare,
    Constant,
    Implied,
    In,
    IsNull,
    Or,
    Predicate,
    Prefix,
    SparkLeaf,
    Unknown,
    Value,
    negate,
    simplify,
)
from hive_bitmap.core.selecting.first_rows import FirstRows
from hive_bitmap.core.table_info import Table
from hive_bitmap.spark.registry.catalog import Index

_EPOCH = date(1970, 1, 1).toordinal()
_INTEGERS = ("tinyint", "smallint", "int", "bigint")


def condition(tree: Sequence[Any], columns: Sequence[Column]) -> Predicate:
    """Convert a condition over these columns to a predicate.

    The predicate is TRUE for the same rows as the condition. `tree` is the condition in the JSON form described in
    `Conditions.java`. Raises ValueError for any other form.

    >>> condition(["and", ["not", ["is null", "a"]], ["compare", "a", "<", "3"]], [Column("a", "int")])
    Compare(column='a', op='<', value=3)
    """
    return simplify(_TreeReader({column.name.lower(): column for column in columns}).node(tree))


class _TreeReader:
    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = columns
        self._leaves: set[SparkLeaf] = set()

    def node(self, tree: Sequence[Any]) -> Predicate:
        match tree:
            case ["and", *children]:
                return And(tuple(map(self.node, children)))
            case ["or", *children]:
                return Or(tuple(map(self.node, children)))
            case ["not", child]:
                return negate(self.node(child))
            case ["constant", value]:
                return Constant(value)
            case ["is null", name]:
                return IsNull(self._name(name))
            case ["compare", name, op, value]:
                return Compare(self._name(name), op, self._value(name, value))
            case ["in", name, *values]:
                distinct = dict.fromkeys(self._value(name, value) for value in values)
                return In(self._name(name), tuple(distinct)) if distinct else Constant(False)
            case ["prefix", name, text]:
                return Prefix(self._name(name), text)
            case ["expression", name, number, sql]:
                return self._expression(self._name(name), number, sql)
            case ["unknown", sql, reason]:
                return Unknown(sql, reason)
            case ["implied", test]:
                return self._implied(self.node(test))
        raise ValueError(f"not a condition of the optimizer rule: {tree}")

    def _name(self, name: str) -> str:
        return self._columns[name.lower()].name

    def _value(self, name: str, value: Any) -> Value:
        match value:
            case bool():
                return value
            case ["date", days]:
                return date.fromordinal(_EPOCH + days)
        kind = self._columns[name.lower()].type
        if kind in _INTEGERS:
            return int(value)
        return Decimal(value) if kind.startswith("decimal") else str(value)

    def _implied(self, test: Predicate) -> Predicate:
        if not isinstance(test, (Compare, In, Prefix, SparkLeaf)):
            raise ValueError(f"not the test of a key: {test}")
        return Implied(test)

    def _expression(self, column: str, number: int, sql: str) -> SparkLeaf:
        leaf = SparkLeaf(sql, column, number)
        if leaf in self._leaves:  # a view evaluates the same text under the settings that it was created with
            leaf = SparkLeaf(f"{sql} ({number})", column, number)
        self._leaves.add(leaf)
        return leaf


@dataclass(frozen=True)
class ListingSummary:
    """A summary of the files that Spark reads for a scan.

    `size` is the total bytes, and `files` the number of files. `digest` is the digest of the listing as text.
    `split_bytes` is the size of the largest splits of Spark's own scan, or 0 if this size does not determine the order
    of the rows.
    """

    size: int
    files: int
    digest: str
    split_bytes: int = 0

    @classmethod
    def of(cls, text: str) -> ListingSummary:
        """Parse a summary from its text, which has four words.

        >>> ListingSummary.of("1024 2 5f2a 4096")
        ListingSummary(size=1024, files=2, digest='5f2a', split_bytes=4096)
        """
        size, files, digest, split_bytes = text.split(" ")
        return cls(int(size), int(files), digest, int(split_bytes))


@dataclass(frozen=True)
class RuntimeFilter:
    """A possible filter on a column: the keys of a join's small side.

    Computing the filter takes a job that reads `bytes` bytes.
    """

    column: str
    bytes: int


@dataclass(frozen=True)
class Sums:
    """What an aggregation needs if partial aggregates in an index answer it.

    The partial aggregates of `measures`, the aggregated columns, are added up for each key of the columns `keys`. If
    the query needs only some groups of a single key, `top` says which groups; otherwise `top` is None.
    """

    keys: tuple[str, ...]
    measures: tuple[Measure, ...]
    top: Top | None = None

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Sums:
        """Return the sums that a JSON object of the JVM describes."""
        measures = [
            Measure(
                column=measure["column"],
                functions=tuple(name for name in FUNCTIONS if name in measure["functions"]),
                may_be_key=measure["may_be_key"],
                conditional=measure.get("conditional", False),
            )
            for measure in fields["measures"]
        ]
        return cls(tuple(fields["keys"]), tuple(measures), Top(**fields["top"]) if "top" in fields else None)

    @property
    def has_sum(self) -> bool:
        """Whether the sum of a column is needed."""
        return any("sum" in measure.functions for measure in self.measures)

    @property
    def is_conditional(self) -> bool:
        """Whether a measure is conditional."""
        return any(measure.conditional for measure in self.measures)

    def to_json(self) -> dict[str, Any]:
        """Return the keys and measures as a JSON object.

        The object is for the reply to the JVM. `Sums.of` reads another form.
        """
        measures = [{"column": measure.column, "functions": measure.functions} for measure in self.measures]
        return {"keys": self.keys, "measures": measures}

    def by_keys_of(self, table: Table, definitions: Sequence[Definition]) -> Sums:
        """Add the expressions of the measures, and turn some of the measures into keys.

        A measure that may be a key (`may_be_key`) becomes a key in two cases: its column is a partition column, or the
        column is indexed and no index has the partial aggregates that the measure needs. `definitions` are the indexes.
        """
        keyed = {name for definition in definitions for name in definition.lower_key_names}
        partitioned_by = {column.name.lower() for column in table.partition_columns}

        def is_key(measure: Measure) -> bool:
            held = any(measure.held(definition.aggregates, table.columns) for definition in definitions)
            name = measure.column.lower()
            return measure.may_be_key and (name in partitioned_by or (not held and name in keyed))

        moved = tuple(measure.column for measure in self.measures if is_key(measure))
        expressions = {e.name: e for definition in definitions for e in definition.aggregated_expressions}
        measures = tuple(
            replace(measure, expression=expressions.get(measure.column))
            for measure in self.measures
            if measure.column not in moved
        )
        return Sums((*self.keys, *moved), measures, None if moved else self.top)


@dataclass(frozen=True, kw_only=True)
class Scan:
    """A scan of a table in a query.

    `number` is the position of the scan in the question. `version` is equal for equal descriptions of a table.
    `condition` is SQL text for people, `tree` the same condition in the JSON form that the function `condition` reads.
    `columns` are the columns of the table that the query needs. `indexed_known` says whether the JVM already knows
    which columns of the table are indexed. `native` says whether Spark's reader can read selected blocks only.
    `ordered` says whether the query sees the order of the rows. `nested` has the types of nested columns as JSON, by
    name, because the optimizer may have left out fields.

    `key_sets` are the sets of columns to count rows by, to answer the aggregation above the scan. `key_sets` is empty
    if there is no aggregation, or if counts do not answer the aggregation, for the reason `unanswered`. `extremes` are
    columns, in lower case: each is a key set of its own for which MIN and MAX are enough. `summaries` are columns, in
    lower case: each is a key set of its own for which a summary (`key_merge.summary`) is enough. `group_summary` names
    the two columns of the only key set, if a summary of one of them for each value of the other is enough; otherwise it
    is None. If the only key set is a single column, and the query needs only some of its groups, `top` says which
    groups; otherwise it is None. `sums` say how partial aggregates answer the aggregation; None if they do not.

    `runtime_filters` are the filters by the keys of small sides of joins. `listed` is None if Spark does not list the
    files, or has not listed them yet (`Question.summarized`). `cores` is the number of tasks that run at once.
    `options` are options that the query gives to the reader, beyond the options of the table. `strategy` is the
    strategy chosen for this scan, which overrides the session's strategy; None if no strategy was chosen for the scan.
    Unless the scan `must_pay`, the indexes are used even for a small table. `limit` is the number of matching rows
    after which Spark stops reading, or None if Spark reads all rows. If the query sorts the rows and takes the first
    ones, `first` says which rows it needs; otherwise it is None.

    `keys` are the names of the index keys with expressions that this scan uses. The query contains the expression of
    such a key, or the query's tests of columns imply a test of the key.
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
    runtime_filters: tuple[RuntimeFilter, ...]
    listed: ListingSummary | None
    cores: int
    options: tuple[str, ...]
    strategy: str | None
    must_pay: bool = True
    extremes: frozenset[str] = frozenset()
    limit: int | None = None
    summaries: frozenset[str] = frozenset()
    group_summary: GroupSummary | None = None
    top: Top | None = None
    nested: Mapping[str, str] = field(default_factory=dict)
    first: FirstRows | None = None
    sums: Sums | None = None
    keys: frozenset[str] = frozenset()

    @classmethod
    def of(cls, number: int, fields: Mapping[str, Any], cores: int) -> Scan:
        """Return scan `number` of a question from its JSON object.

        `cores` is the number of tasks that run at once.
        """
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
            summaries=frozenset(name.lower() for name in aggregate.get("summaries", ())),
            group_summary=GroupSummary(**aggregate["group_summary"]) if "group_summary" in aggregate else None,
            top=Top(**aggregate["top"]) if "top" in aggregate else None,
            unanswered=aggregate.get("why"),
            runtime_filters=tuple(RuntimeFilter(**filter) for filter in fields["runtime_filters"]),
            listed=None if summary is None else ListingSummary.of(summary),
            cores=cores,
            options=tuple(fields["options"]),
            strategy=fields.get("strategy"),
            must_pay=fields.get("must_pay", True),
            limit=fields.get("limit"),
            nested=fields.get("nested", {}),
            first=FirstRows(**fields["first"]) if "first" in fields else None,
            sums=Sums.of(aggregate["sums"]) if "sums" in aggregate else None,
            keys=frozenset(key["name"] for key in fields.get("keys", ()) if key["used"]),
        )


def why_too_small(scan: Scan, base: Table, settings: Settings) -> str | None:
    """Return why a scan is too small for indexes to save time.

    Return None if the scan is large enough. The result is also None if the session has set a strategy, if the scan does
    not have to pay (`must_pay`), if Spark's reader cannot read selected blocks only (`native`), or if Spark has not
    listed the files.
    """
    listed = scan.listed
    if settings.strategy is not None or not scan.must_pay or not scan.native or listed is None:
        return None
    column_bytes = int(_bytes_of_columns(scan, base, listed))
    if not _prices(scan, base, settings).is_too_small(column_bytes, listed.files, native=True):
        return None
    return f"the {column_bytes:,} bytes of its columns are read in less time than planning takes"


def _prices(scan: Scan, base: Table, settings: Settings) -> Prices:
    format = format_of(base)
    factors = PRICES.factors(base.location, format) if settings.learn_prices else FROZEN
    return Prices(format, scan.cores, stores.estimated_speed_of(base.location), factors)


def _bytes_of_columns(scan: Scan, base: Table, listed: ListingSummary) -> float:
    """Estimate the bytes of a scan's columns in its files."""
    columns = (*base.columns, *base.partition_columns)
    names = {name.lower() for name in scan.columns}
    share = share_of_bytes([column for column in columns if column.name.lower() in names], columns)
    return share * listed.size


def worthwhile_runtime_filters(scan: Scan, base: Table, indexes: Sequence[Index], settings: Settings) -> list[int]:
    """Return the positions in `scan.runtime_filters` of the filters that are worth a job.

    The column of such a filter is indexed, or it is the only column of a key expression in `scan.keys`. Unless the
    session has set a strategy, the scan must also take clearly longer than the job plus the start of a read with an
    index. The result is empty if the session has set the strategy `full scan`, and if Spark's reader cannot read
    selected blocks only (`scan.native`).
    """
    if not scan.runtime_filters or settings.strategy == Strategy.FULL_SCAN or not scan.native:
        return []
    definitions = [index.definition for index in indexes if not index.why_not]
    indexed = {name for definition in definitions for name in definition.lower_key_names}
    for expression in (e for definition in definitions for e in definition.expressions if e.name in scan.keys):
        indexed |= {column.name.lower() for column in expression.columns if len(expression.columns) == 1}
    usable = [number for number, filter in enumerate(scan.runtime_filters) if filter.column.lower() in indexed]
    if settings.strategy is not None:
        return usable
    listed = scan.listed
    size, files = (0.0, 0) if listed is None else (_bytes_of_columns(scan, base, listed), listed.files)
    prices = _prices(scan, base, settings)
    return [number for number in usable if prices.pays_first(scan.runtime_filters[number].bytes, size, files)]
