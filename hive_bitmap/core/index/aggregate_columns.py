"""Define and compute the partial aggregates that an index stores.

An index may store the count, sum, minimum and maximum of other columns, for each key in each block (BITMAP) or in each
file (AGGREGATE). If the property `aggregates` is `count(*), sum(amount)`, the index table has the columns
`_count_of_all`, `_sum_of_amount` and so on. An aggregated expression needs a name for its columns:
`sum(price * quantity) AS revenue` is stored in `_sum_of_revenue`. The column names follow Hive's AGGREGATE index.
docs/format.md specifies the columns.

In Arrow and numpy, sums wrap silently when they overflow, even sums of decimals. So the type for adding values is
chosen by the number of values and by the largest value: it can hold the sum of any selection of the rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.columns import Column, KeyExpression, KeyText
from hive_bitmap.core.formats.key_values import KeyColumn, arrow_type
from hive_bitmap.core.index.key_columns import base_type, check_alias, is_reserved, require_stored
from hive_bitmap.core.predicates.tokens import Tokens, tokenize
from hive_bitmap.core.table_info import Table, quote
from hive_bitmap.errors import InvalidPredicate, InvalidProperty, Unsupported, suggestion

FUNCTIONS = ("sum", "count", "min", "max")
ALL = "all"  # Hive's name for `*` in the name of a column
SUMMED = ("tinyint", "smallint", "int", "bigint", "decimal")
COMPARED = (*SUMMED, "date")  # types of which a minimum and a maximum are stored
SUM_DIGITS = 38  # digits of the decimal that holds a sum
_DECIMALS = {"float": "decimal(9,2)", "double": "decimal(18,2)"}  # types to use instead of floats
_EXAMPLE = "count(*), sum(amount), sum(price * quantity) AS revenue"
Values: TypeAlias = "pa.Array | pa.ChunkedArray"
WIDEST_DIGITS = 76  # digits of a decimal in 256 bits
_KEY, _VALUE, _ADDED, _LOST = "key", "value", "added", "lost"


@dataclass(frozen=True)
class Aggregate:
    """A partial aggregate that each row of an index holds.

    `function` is one of FUNCTIONS. If `column` is None, the aggregate is `count(*)`. If an `expression` is aggregated,
    `column` has the alias and the type of the expression.
    """

    function: str
    column: Column | None = None
    expression: KeyExpression | None = None

    def __str__(self) -> str:
        if self.column is None:
            return f"{self.function}(*)"
        if self.expression is not None:
            return f"{self.function}({self.expression.sql}) AS {self.expression.alias}"
        name = self.column.name
        return f"{self.function}({name if name.isidentifier() else quote(name)})"

    @property
    def measured(self) -> str:
        """The name of the aggregated column or expression in a query, as `Measure.column`; "" for `count(*)`."""
        if self.expression is not None:
            return self.expression.name
        return "" if self.column is None else self.column.name

    @property
    def stored(self) -> Column:
        """The column of the index table that stores this aggregate."""
        name = f"_{self.function}_of_{ALL if self.column is None else self.column.name}"
        if self.column is None or self.function == "count":
            return Column(name, "bigint")
        if self.function == "sum":
            return Column(name, f"decimal({SUM_DIGITS},{scale(self.column)})")
        return Column(name, self.column.type)

    @property
    def field(self) -> pa.Field:
        """The column `stored` as an Arrow field."""
        return pa.field(self.stored.name, arrow_type(KeyColumn(self.stored.name, self.stored.type)))


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What a query aggregates: a column or an expression, with the functions that the answer needs.

    `column` is the name of the column in the query, or `KeyExpression.name` of the `expression`. `functions` are some
    of FUNCTIONS, in the order of FUNCTIONS. They always include `count`, which shows whether an index knows the values.
    With `may_be_key`, the answer may also come from an index that has the column as a key. A measure is `conditional`
    if the query needs the expression only for some rows, and the expression may fail for others: then only files of
    which the index has the values can answer.
    """

    column: str
    functions: tuple[str, ...]
    may_be_key: bool = False
    conditional: bool = False
    expression: KeyExpression | None = None

    def __str__(self) -> str:
        """Return the aggregates that an index must define to answer the measure.

        The text is like the property `aggregates`, but without names of expressions. Aggregates that an index stores
        along with others are left out: the count, and the minimum and maximum of a column with a sum.
        """
        extremes = [function for function in self.functions if function in ("min", "max")]
        functions = ["sum"] if "sum" in self.functions else extremes or ["count"]
        measured = self.column if self.expression is None else self.expression.sql
        return ", ".join(f"{function}({measured})" for function in functions)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the table's columns that the query aggregates."""
        return (self.column,) if self.expression is None else tuple(c.name for c in self.expression.columns)

    def held(self, aggregates: Iterable[Aggregate], columns: Collection[Column]) -> tuple[Aggregate, ...]:
        """Choose the aggregates of an index that the answer needs.

        `aggregates` are all aggregates of the index, and `columns` the current data columns of the table. The result is
        in the order of `functions`; it is empty if the index lacks one of the aggregates, or if a column has changed.
        """
        by_function = {a.function: a for a in aggregates if self._is_of(a, columns)}
        found = tuple(by_function[function] for function in self.functions if function in by_function)
        return found if len(found) == len(self.functions) else ()

    def _is_of(self, aggregate: Aggregate, columns: Collection[Column]) -> bool:
        """Return whether an aggregate is of this measure's column or expression.

        Two expressions are the same if their `name` is the same; an index may have another alias for it. The result is
        False if a column of the aggregate is not among `columns`, the current data columns of the table.
        """
        if aggregate.column is None or (aggregate.expression is None) != (self.expression is None):
            return False
        if aggregate.expression is None:
            return aggregate.column in columns and aggregate.column.name.lower() == self.column.lower()
        return aggregate.expression.name == self.column and set(aggregate.expression.columns) <= set(columns)


def scale(column: Column) -> int:
    """Return the scale of a decimal column; 0 for other types."""
    return arrow_type(KeyColumn(column.name, column.type)).scale if base_type(column) == "decimal" else 0


def texts(aggregates: Iterable[Aggregate]) -> str:
    """Return the text of the property that defines these aggregates."""
    return ", ".join(map(str, aggregates))


def parse(text: str) -> list[tuple[str, str | KeyText]]:
    """Parse a list of aggregates.

    Return pairs (function, column). For `count(*)`, the column is `*`. For a column without a function, the function is
    "", which means all functions that suit the type of the column. An expression is a KeyText, whose `alias` is the
    name after AS in lower case. Raise InvalidProperty.

    >>> parse("COUNT(*), sum(`a b`), price, sum(price * n) AS Revenue")
    [('count', '*'), ('sum', 'a b'), ('', 'price'), ('sum', KeyText(sql='price * n', alias='revenue'))]
    """
    if not text.strip():
        return []
    try:
        tokens = Tokens(text)
    except InvalidPredicate as e:
        raise _malformed(text) from e
    pairs = [_item(tokens)]
    while tokens.accept(","):
        pairs.append(_item(tokens))
    if tokens.token.kind != "end":
        raise _malformed(text)
    return pairs


def _item(tokens: Tokens) -> tuple[str, str | KeyText]:
    name = tokens.advance()
    if name.kind not in ("word", "name"):
        raise _malformed(tokens.text)
    if not tokens.accept("("):
        return "", name.name
    function = name.name.lower()
    if function not in FUNCTIONS:
        more = ": sum and count give the average" if function == "avg" else suggestion(function, FUNCTIONS)
        raise InvalidProperty(f"unknown aggregate {function!r}; known: {', '.join(sorted(FUNCTIONS))}{more}")
    argument = _argument(tokens)
    if argument is None:
        raise _malformed(tokens.text)
    is_star = function == "count" and argument == "*"
    column = tokenize(argument)[0]
    if is_star or (argument == column.text and column.kind in ("word", "name")):
        if tokens.next_is("AS"):
            raise InvalidProperty(
                f"{function}({argument}) is of a column, whose name is used: leave out AS and the name"
            )
        return function, "*" if is_star else column.name
    if argument == "*" or column.key == "DISTINCT":
        raise _malformed(tokens.text)
    if not tokens.accept("AS"):
        raise InvalidProperty(
            f"{function}({argument}) is of an expression, which needs a name: {function}({argument}) AS name"
        )
    alias = tokens.advance()
    if alias.kind not in ("word", "name"):
        raise _malformed(tokens.text)
    return function, KeyText(argument, alias.name.lower())


def _argument(tokens: Tokens) -> str | None:
    """Consume the argument of a function, and the bracket after it; return its text.

    Return None if there is no argument, or no bracket after it.
    """
    start, end, depth = tokens.offset, tokens.offset, 1
    while depth and tokens.token.kind not in ("end", "ambiguous"):
        end = tokens.offset
        depth += {"(": 1, ")": -1}.get(tokens.advance().key, 0)
    return tokens.text[start:end].strip() or None if not depth else None


def _malformed(text: str) -> InvalidProperty:
    return InvalidProperty(
        f"aggregates is {text!r}: expected functions of columns, or of expressions with a name, such as {_EXAMPLE!r}"
    )


def resolve(
    table: Table,
    keys: Sequence[Column],
    text: str,
    expressions: Mapping[KeyText, KeyExpression] | None = None,
    *,
    counts_rows: bool = False,
) -> tuple[Aggregate, ...]:
    """Return the aggregates that a text defines.

    The text has the form that `parse` reads. The result has `count(*)` first, then the aggregates of columns in the
    order of the table's columns, then the aggregates of expressions. `keys` are the keys of the index. `expressions`
    maps each expression of the text to the expression as Spark has resolved it.

    Each aggregated column also gets its count. A column with a sum also gets its minimum and maximum, which prove that
    no sum overflows. With `counts_rows`, `count(*)` is always among the aggregates. `count(k)` of a key column k, as in
    Hive's examples of AGGREGATE, stands for `count(*)`.

    Raise InvalidProperty for a malformed text, and NotFound for an unknown column. Raise Unsupported for a column that
    cannot be aggregated or does not support the function, for a name that the index table has already, and for an
    expression that is not resolved.
    """
    where = f"table {table.full_name}"
    functions: dict[str, set[str]] = {}
    measured: dict[KeyExpression, set[str]] = {}
    key_names = {key.name.lower() for key in keys}
    for function, name in parse(text):
        if isinstance(name, KeyText):
            if expressions is None or name not in expressions:
                raise Unsupported(f"{name.sql} is an expression: only a build aggregates expressions")
            added = set(FUNCTIONS) if function == "sum" else {function, "count"}
            measured.setdefault(expressions[name], set()).update(added)
            continue
        if function == "count" and (name == "*" or name.lower() in key_names):
            counts_rows = True
            continue
        column = _column(table, keys, name)
        allowed = functions_of(column)
        if function not in ("", *allowed) or (not function and allowed == {"count"}):
            raise _unsupported(column, function, where)
        added = allowed if function in ("", "sum") else {function, "count"}
        functions.setdefault(column.name, set()).update(added)
    aggregates = [Aggregate("count")] if counts_rows else []
    for column in table.columns:
        aggregates += [Aggregate(name, column) for name in FUNCTIONS if name in functions.get(column.name, ())]
    _check_expressions(table, keys, list(measured), where)
    for expression, needed in measured.items():
        aggregates += [Aggregate(name, expression.stored, expression) for name in FUNCTIONS if name in needed]
    _require_distinct(table, keys, aggregates, where)
    return tuple(aggregates)


def _check_expressions(table: Table, keys: Sequence[Column], expressions: Sequence[KeyExpression], where: str) -> None:
    """Require that expressions can be aggregated under their names.

    `where` names the base table in messages. Raise Unsupported, and NotFound for a missing column.
    """
    taken = {column.name.lower() for column in (*table.columns, *table.partition_columns, *keys)} | {ALL}
    canonical: dict[str, KeyExpression] = {}
    for expression in expressions:
        check_alias(expression, taken, where)
        taken.add(expression.alias)
        same = canonical.setdefault(expression.name, expression)
        if same is not expression:
            raise Unsupported(f"{expression.sql} is aggregated as {same.alias} already: give it one name")
        for column in expression.columns:
            require_stored(table, column.name)


def _column(table: Table, keys: Sequence[Column], name: str) -> Column:
    """Return the column to aggregate.

    Raise NotFound, or Unsupported for a key, a partition column or a column that builds do not read.
    """
    column = require_stored(table, name)
    if column in keys:
        raise Unsupported(f"column {column.name!r} is a key of the index: its aggregates follow from its values")
    return column


def functions_of(column: Column) -> set[str]:
    """Return the aggregate functions that suit the type of a column."""
    base = base_type(column)
    return set(FUNCTIONS) if base in SUMMED else {"count", "min", "max"} if base in COMPARED else {"count"}


def _unsupported(column: Column, function: str, where: str) -> Unsupported:
    base, what = base_type(column), f"column {column.name!r} of {where} is {column.type}"
    if base in _DECIMALS:
        return Unsupported(
            f"{what}, whose sums depend on the order of the rows: use a decimal with the digits of its values, such as "
            f"{_DECIMALS[base]}"
        )
    if function == "sum":
        return Unsupported(f"{what}: sum works on {', '.join(SUMMED)}")
    return Unsupported(f"{what}, of which an index stores only count: min and max work on {', '.join(COMPARED)}")


def _require_distinct(table: Table, keys: Sequence[Column], aggregates: Sequence[Aggregate], where: str) -> None:
    """Raise Unsupported if two columns of the index table would have the same name.

    `where` names the base table in the message.
    """
    taken = {column.name.lower() for column in (*keys, *table.partition_columns)}
    for aggregate in aggregates:
        name = aggregate.stored.name
        if aggregate.column is not None and aggregate.column.name.lower() == ALL:
            raise Unsupported(
                f"column {aggregate.column.name!r} of {where} cannot be aggregated: _count_of_{ALL} is count(*)"
            )
        if name.lower() in taken or is_reserved(name):
            raise Unsupported(f"{aggregate} would be column {name} of the index table, which already has such a column")
        taken.add(name.lower())


def partials(
    aggregates: Sequence[Aggregate], codes: npt.NDArray[Any], rows: npt.NDArray[np.int64], values: Values | None
) -> list[pa.Array]:
    """Compute the aggregates of one column for each key of a block.

    With n rows and k keys, `values` (n) has the column's value in each row of the block. If the values are unknown,
    `values` is None, and all aggregates are NULL. For `count(*)`, `values` is not used. `codes` (n) has the key number
    of each row, and `rows` (k) the number of rows of each key. Return an array (k) for each aggregate, in the order of
    the key numbers, with the type of `Aggregate.field`. A sum that does not fit its type is NULL.
    """
    if aggregates and aggregates[0].column is None:
        return [pa.array(rows, pa.int64()) for _ in aggregates]
    if values is None:
        return [pa.nulls(len(rows), aggregate.field.type) for aggregate in aggregates]
    columns: dict[str, Values] = {_KEY: pa.array(codes), _VALUE: values}
    if any(aggregate.function == "sum" for aggregate in aggregates):
        columns[_ADDED] = summable(values, int(rows.sum()))
    named = [(_ADDED if aggregate.function == "sum" else _VALUE, aggregate.function) for aggregate in aggregates]
    grouped = pa.table(columns).group_by(_KEY, use_threads=False).aggregate(named)
    order = pa.array(np.argsort(grouped[_KEY].to_numpy()))
    results = [grouped[f"{column}_{function}"].combine_chunks().take(order) for column, function in named]
    return [fitting(result, a.field.type) for result, a in zip(results, aggregates, strict=True)]


def merged(aggregates: Sequence[Aggregate], rows: pa.Table, groups: npt.NDArray[np.int64]) -> pa.Table:
    """Merge the partial aggregates of each group of rows.

    `rows` has at least the stored columns of the aggregates. `groups` has the number of each row's group: 0, 1 and so
    on, in ascending order. The result has the stored columns, and a row for each group. If the values of a column are
    unknown in one row of a group, they are unknown in the group. If a sum does not fit in one row of a group, it is
    NULL in the group.
    """
    columns: dict[str, Values] = {_KEY: pa.array(groups)}
    functions: list[tuple[str, str, pc.ScalarAggregateOptions]] = []
    for aggregate in aggregates:
        name, values = aggregate.field.name, rows[aggregate.field.name]
        columns[name] = summable(values, rows.num_rows) if aggregate.function == "sum" else values
        adds = aggregate.function in ("sum", "count")
        options = pc.ScalarAggregateOptions(skip_nulls=aggregate.function != "count")
        functions.append((name, "sum" if adds else aggregate.function, options))
        if aggregate.function == "sum":
            columns[_LOST + name] = _lost(rows, aggregate).cast(pa.int8())
            functions.append((_LOST + name, "max", pc.ScalarAggregateOptions()))
    grouped = pa.table(columns).group_by(_KEY, use_threads=False).aggregate(functions)
    results: dict[str, pa.ChunkedArray] = {}
    for aggregate in aggregates:
        name = aggregate.field.name
        function = "sum" if aggregate.function in ("sum", "count") else aggregate.function
        result = fitting(grouped[f"{name}_{function}"].combine_chunks(), aggregate.field.type)
        if aggregate.column is not None and aggregate.function != "count":
            count = grouped[f"{Aggregate('count', aggregate.column).field.name}_sum"]
            is_known = count.is_valid().combine_chunks()
            if aggregate.function == "sum":
                is_known = pc.and_(is_known, pc.equal(grouped[f"{_LOST}{name}_max"], 0).combine_chunks())
            result = pc.if_else(is_known, result, pa.scalar(None, result.type))
        results[name] = result
    return pa.table(results, pa.schema([aggregate.field for aggregate in aggregates]))


def _lost(rows: pa.Table, aggregate: Aggregate) -> pa.ChunkedArray:
    """Return for each row whether the sum is NULL although values were added."""
    count = rows[Aggregate("count", aggregate.column).field.name]
    return pc.and_(pc.is_null(rows[aggregate.field.name]), pc.fill_null(pc.greater(count, 0), False))


def summable(values: Values, rows: int) -> Values:
    """Cast values to a type that can hold their sum.

    The type can hold the sum of any selection of the values. `rows` is the number of values.
    """
    if pa.types.is_integer(values.type):
        wide = values.cast(pa.int64())
        if _largest(wide, rows) < 1 << 63:
            return wide
        return wide.cast(pa.decimal128(SUM_DIGITS, 0))  # fewer than 2**32 rows below 2**63: sums are below 2**95
    scale = values.type.scale
    if _largest(values, rows) <= 10 ** (SUM_DIGITS - scale) - 1:
        return values
    return values.cast(pa.decimal256(WIDEST_DIGITS, scale))


def fitting(results: pa.Array, type: pa.DataType) -> pa.Array:
    """Cast results to the stored type.

    A sum of more than SUM_DIGITS digits becomes NULL.
    """
    if pa.types.is_decimal256(results.type):
        bound = pa.scalar(Decimal(10 ** (SUM_DIGITS - type.scale)), results.type)
        results = pc.if_else(pc.less(pc.abs(results), bound), results, pa.scalar(None, results.type))
    return results.cast(type)


def _largest(values: Values, rows: int) -> int:
    """Return an upper bound for the absolute value of sums.

    The bound holds for the sum of any selection of the values, and is a whole number. `rows` is the number of values.
    """
    low, high = (int(bound.as_py() or 0) for bound in pc.min_max(values).values())
    fraction = 0 if pa.types.is_integer(values.type) else 1  # `int` cuts off the digits after the decimal point
    return (max(-low, high) + fraction) * rows
