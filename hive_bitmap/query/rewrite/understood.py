"""What of a query's demands on a table the indexes, or Spark key by key, can be asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hive_bitmap.columns import Column
from hive_bitmap.errors import InvalidPredicate
from hive_bitmap.query.names import path_at
from hive_bitmap.query.nodes import Compare, Constant, In, IsNull, Predicate, Prefix, Unknown, leaves_of
from hive_bitmap.query.predicates import parse
from hive_bitmap.query.rewrite.demands import Demand
from hive_bitmap.query.rewrite.words import Words
from hive_bitmap.query.tokens import tokenize

# names that differ in case, quoted names that stand for several columns, HAVING that means WHERE, the outermost WITH
_MISREAD = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.parser.quotedRegexColumnNames": "true",
    "spark.sql.legacy.parser.havingWithoutGroupByAsWhere": "true",
    "spark.sql.legacy.ctePrecedencePolicy": "legacy",
}


def predicate(demands: Sequence[Demand], columns: Sequence[Column], alias: str) -> str | None:
    """The demands that are understood over these columns, put together; None if there are none."""
    texts = dict.fromkeys(demand.text for demand in demands if serves(demand, columns, alias))
    return " AND ".join(f"({text})" for text in texts) or None


def serves(demand: Demand, columns: Sequence[Column], alias: str) -> bool:
    """Whether a demand is understood over the columns of a table of that name."""
    try:
        tree = parse(demand.text, columns, alias)
    except InvalidPredicate:
        return False
    leaves = list(leaves_of(tree))
    if any(isinstance(leaf, Unknown) for leaf in leaves):
        return False
    return not demand.strict or all(map(_rejects_nulls, leaves))


def names(demands: Sequence[Demand]) -> set[str]:
    """Every word of the demands that may be a column."""
    tokens = (token for demand in demands for token in tokenize(demand.text))
    return {part for token in tokens for part in path_at([token], 0)[0]}


def mentioned(read: Words, columns: Sequence[Column], *, whole: bool) -> tuple[str, ...]:
    """The columns that the text names anywhere, or, where a star asks for them, the `whole` table's.

    One at least, for a scan must have one.
    """
    found_names = {read.name(at) for at in range(read.end)}
    found = tuple(column.name for column in columns if whole or column.name.lower() in found_names)
    return found or (columns[0].name,)


def misread(conf: Mapping[str, str]) -> str:
    """The setting under which a query means something else than is read here; empty if there is none."""
    return next((name for name, value in _MISREAD.items() if conf.get(name, "").lower() == value), "")


def _rejects_nulls(leaf: Predicate) -> bool:
    """Whether a leaf is never TRUE of NULL; so is then all that AND and OR make of such leaves."""
    match leaf:
        case Compare() | In() | Prefix() | IsNull(negated=True):
            return True
        case Constant(value):
            return value is not True
        case _:
            return False
