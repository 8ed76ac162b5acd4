"""Choose the index that serves each column of a request.

If no index can serve the request, the reason is given. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.aggregate_columns import Aggregate, Measure, texts
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.planning.plan import IndexUse
from hive_bitmap.core.planning.strategy import Reason
from hive_bitmap.core.predicates.nodes import Implied, Predicate, Unknown, columns_of, leaves_of
from hive_bitmap.core.selecting.candidates import choose_indexes
from hive_bitmap.core.selecting.lookup_units import ANY_KEY


@dataclass(frozen=True)
class Unserved:
    """The reason why no index serves a request: a code, and a sentence.

    `code` is None for a detail that only completes the reason of another object (`also`).
    """

    code: Reason | None = None
    reason: str = ""

    def also(self, other: Unserved) -> Unserved:
        """Return both reasons, joined.

        The code is the code of `other` or, if `other` has no code, of this object.
        """
        return Unserved(other.code or self.code, "; ".join(filter(None, (self.reason, other.reason))))


@dataclass(frozen=True, kw_only=True)
class IndexChoice:
    """The index of each column, and whether each index is used.

    `by_column` has the chosen indexes by lower-case column name. The key ANY_KEY stands for no column: its index
    provides the number of all rows, which any index can do, or holds the aggregates. `unserved` says why no index can
    serve the request; it is None if an index serves the request. `aggregates` are the aggregates of the chosen index
    that the request needs.
    """

    by_column: Mapping[str, Definition]
    unserved: Unserved | None
    uses: tuple[IndexUse, ...]
    aggregates: tuple[Aggregate, ...] = ()

    def unused(self, reason: str) -> tuple[IndexUse, ...]:
        """Return `uses` with every index marked as not used.

        `reason` becomes the reason of the indexes that were used until now. The other indexes keep their reasons.
        """
        return tuple(replace(use, used=False, reason=reason if use.used else use.reason) for use in self.uses)

    def noting(self, unusable_keys: Mapping[str, str]) -> IndexChoice:
        """Add to the choice why some indexes have unusable keys.

        `unusable_keys` maps the name of such an index to the reason. In `uses`, an index that is not used gets this
        reason instead of its present reason; used indexes stay as they are. If no index serves the request, all reasons
        in `unusable_keys` are also added to `unserved`.
        """
        uses = [use if use.used else replace(use, reason=unusable_keys.get(use.name, use.reason)) for use in self.uses]
        reasons = "; ".join(dict.fromkeys(unusable_keys.values()))
        unserved = self.unserved and self.unserved.also(Unserved(None, reasons))
        return replace(self, uses=tuple(uses), unserved=unserved)


def choose(
    indexes: Sequence[tuple[Definition, str]],
    predicate: Predicate,
    *,
    keys: Sequence[str] = (),
    count: bool = False,
    has_condition: bool = True,
) -> IndexChoice:
    """Choose the indexes for a predicate and grouping keys.

    `indexes` pairs each definition with the reason why the index cannot be used; "" for a usable index. `keys` are the
    grouping columns of a count, in lower case. Only a BITMAP index is chosen for a grouping column that the predicate
    does not test; `choose_cube` chooses an AGGREGATE index. `count` says whether the query is a count; only a count may
    use an index for the number of all rows. `has_condition` says whether the query has a condition. The predicate does
    not show this: if no index can test the condition, the predicate is TRUE, as without a condition.
    """
    usable = [definition for definition, why_not in indexes if not why_not]
    by_column = choose_indexes(usable, predicate, keys)
    if not count:
        by_column.pop(ANY_KEY, None)
    unserved = _unserved(indexes, predicate, by_column, keys, has_condition=has_condition)
    return IndexChoice(by_column=by_column, unserved=unserved, uses=explain_indexes(indexes, by_column, predicate))


def choose_for_sums(
    indexes: Sequence[tuple[Definition, str]],
    predicate: Predicate,
    keys: Sequence[str],
    measures: Sequence[Measure] = (),
    columns: Collection[Column] = (),
    partitioned_by: Collection[str] = (),
) -> IndexChoice:
    """Choose the index whose partial aggregates answer a query.

    The index must have all grouping columns, and all aggregates that `measures` need. `partitioned_by` are the
    partition columns in lower case, which the index need not have. Indexes that also have all tested columns are
    preferred. Among these, the index with the fewest columns is chosen. If several indexes have as few columns, an
    AGGREGATE index is preferred, because it has fewer rows. If no index has all tested columns, and there are measures,
    a BITMAP index with the grouping columns and aggregates is chosen. Other BITMAP indexes are then chosen for the
    tested columns that this index lacks.

    In `by_column`, the index with the aggregates also has the key ANY_KEY, because the query may name none of its
    columns. `columns` are the data columns of the table; no index is chosen if a measure needs any other column.
    `indexes` pairs each definition with the reason why the index cannot be used; "" for a usable index. `keys` are the
    grouping columns in lower case. If no index is chosen, `by_column` is empty, and `unserved` has the reason.
    """
    tested = {column.lower() for column in columns_of(predicate)}
    needed, keyed = {*keys, *tested} - set(partitioned_by), set(keys) - set(partitioned_by)
    holding = [
        definition
        for definition, why_not in indexes
        if not why_not and definition.counts_rows and all(m.held(definition.aggregates, columns) for m in measures)
    ]
    serving = [definition for definition in holding if needed <= definition.lower_key_names]
    if not serving and measures and (by_blocks := _choose_by_blocks(indexes, holding, keyed, needed - keyed)):
        return _with_sums(indexes, by_blocks, predicate, measures, columns)
    if not serving:
        by = f" by {_shown(sorted(needed), [definition for definition, _ in indexes])}" if needed and holding else ""
        why = f"no index holds {', '.join(map(str, measures))}{by}{_unusable(indexes)}"
        return IndexChoice(by_column={}, unserved=Unserved(Reason.NOT_TESTED, why), uses=())
    chosen = min(serving, key=lambda d: (len(d.columns), not d.counts_files, d.name))
    by_column = dict.fromkeys((*sorted(needed), ANY_KEY), chosen)
    return _with_sums(indexes, by_column, predicate, measures, columns)


def _with_sums(
    indexes: Sequence[tuple[Definition, str]],
    by_column: Mapping[str, Definition],
    predicate: Predicate,
    measures: Sequence[Measure],
    columns: Collection[Column],
) -> IndexChoice:
    """Return the choice of indexes, one of which holds the aggregates of `measures`.

    `by_column` has the chosen indexes; the index with the aggregates has the key ANY_KEY. `columns` are the data
    columns of the table.
    """
    holder, uses = by_column[ANY_KEY], []
    aggregates = tuple(a for measure in measures for a in measure.held(holder.aggregates, columns))
    for use in explain_indexes(indexes, by_column, predicate):
        if use.name == holder.name:
            served = [column for column, chosen in by_column.items() if chosen is holder and column != ANY_KEY]
            serves = f"serves {_shown(served, [holder])}; " if served else ""
            use = replace(use, reason=f"{serves}holds {texts(aggregates) or Aggregate('count')}")
        uses.append(use)
    return IndexChoice(by_column=by_column, unserved=None, uses=tuple(uses), aggregates=aggregates)


def _choose_by_blocks(
    indexes: Sequence[tuple[Definition, str]],
    holding: Sequence[Definition],
    keys: Collection[str],
    tested: Collection[str],
) -> dict[str, Definition]:
    """Choose a BITMAP index with the keys, and indexes for all tested columns.

    Further BITMAP indexes are chosen for the tested columns that the first index lacks. `holding` are the indexes with
    the aggregates. `keys` and `tested` are data columns in lower case. Return the indexes by column, the index with the
    keys under ANY_KEY, too. The result is empty if there are no such indexes.
    """
    bitmaps = [definition for definition, why_not in indexes if not why_not and definition.has_bitmaps]
    holders = [
        definition for definition in bitmaps if definition in holding and set(keys) <= definition.lower_key_names
    ]
    if not holders:
        return {}
    holder = min(holders, key=lambda d: (-len(d.lower_key_names.intersection(tested)), len(d.columns), d.name))
    chosen = dict.fromkeys(sorted({*keys, *holder.lower_key_names.intersection(tested)}), holder)
    for column in sorted(set(tested) - chosen.keys()):
        serving = [definition for definition in bitmaps if column in definition.lower_key_names]
        if not serving:
            return {}
        chosen[column] = min(serving, key=lambda d: (len(d.columns), d.name))
    return chosen | {ANY_KEY: holder}


def choose_cube(
    indexes: Sequence[tuple[Definition, str]],
    predicate: Predicate,
    keys: Sequence[str],
    partitioned_by: Collection[str],
) -> IndexChoice | None:
    """Choose an AGGREGATE index that counts the matching rows by keys.

    The index must have all columns that the query tests or groups by. Return None if no index has all of these columns,
    if a BITMAP index has all of them, or if the query neither tests nor groups by a column. `indexes` pairs each
    definition with the reason why the index cannot be used; "" for a usable index. `keys` are the grouping columns, and
    `partitioned_by` the partition columns, both in lower case.
    """
    needed = {*keys, *(column.lower() for column in columns_of(predicate))} - set(partitioned_by)
    serving = [
        definition
        for definition, why_not in indexes
        if not why_not and definition.counts_rows and needed <= definition.lower_key_names
    ]
    if not needed or not serving or any(definition.has_bitmaps for definition in serving):
        return None
    return choose_for_sums(indexes, predicate, keys, partitioned_by=partitioned_by)


def _shown(names: Sequence[str], definitions: Sequence[Definition]) -> str:
    """Return the names of columns and keys as users know them.

    A key that is an expression is shown as SQL.
    """
    shown = {e.name: e.sql for definition in definitions for e in definition.expressions}
    return ", ".join(shown.get(name, name) for name in names)


def _unserved(
    indexes: Sequence[tuple[Definition, str]],
    predicate: Predicate,
    by_column: Mapping[str, Definition],
    keys: Sequence[str],
    *,
    has_condition: bool,
) -> Unserved | None:
    if not indexes:
        return Unserved(Reason.NO_INDEX, "the table has no index")
    unusable = _unusable(indexes)
    if missing := [key for key in keys if key not in by_column]:
        key = _shown(missing[:1], [definition for definition, _ in indexes])
        return Unserved(Reason.NOT_TESTED, f"no index of type BITMAP has the key {key}{unusable}")
    if by_column:
        return None
    tested = "no index has a column that the predicate tests"
    why = tested if has_condition else "no condition that can be looked up in an index"
    return Unserved(Reason.NO_INDEX if unusable else _why_untested(predicate), f"{why}{unusable}")


def _unusable(indexes: Sequence[tuple[Definition, str]]) -> str:
    """Say why indexes cannot be used, as the continuation of a sentence.

    The text is "" if all indexes can be used.
    """
    return "".join(f"; {why_not}" for why_not in dict.fromkeys(why_not for _, why_not in indexes if why_not))


def _why_untested(predicate: Predicate) -> Reason:
    is_opaque = any(isinstance(leaf, Unknown) for leaf in leaves_of(predicate))
    return Reason.NOT_UNDERSTOOD if is_opaque else Reason.NOT_TESTED


def explain_indexes(
    indexes: Sequence[tuple[Definition, str]], by_column: Mapping[str, Definition], predicate: Predicate
) -> tuple[IndexUse, ...]:
    """Return for each index whether it is used, and why.

    `indexes` pairs each definition with the reason why the index cannot be used; "" for a usable index. `by_column` has
    the chosen indexes by lower-case column name.
    """
    tested = bool(columns_of(predicate))
    implied = {leaf.column for leaf in leaves_of(predicate) if isinstance(leaf, Implied)}
    return tuple(
        _use(definition, why_not, by_column, tested=tested, implied=implied) for definition, why_not in indexes
    )


def _use(
    definition: Definition, why_not: str, by_column: Mapping[str, Definition], *, tested: bool, implied: Collection[str]
) -> IndexUse:
    serves = [column for column, chosen in by_column.items() if chosen is definition]
    serving = sorted({by_column[c.lower()].name for c in definition.key_names if c.lower() in by_column})
    if serves:
        reason = f"serves {_shown(serves, [definition])}" if serves != [ANY_KEY] else "knows how many rows there are"
        if implying := [e.columns[0].name for e in definition.expressions if e.name in implied and e.name in serves]:
            reason += f", which follows from the test of {', '.join(dict.fromkeys(implying))}"
    elif why_not:
        reason = why_not
    elif serving:
        reason = f"index {', '.join(serving)} serves the same column"
    elif tested:
        reason = f"the predicate does not test {' or '.join(definition.key_texts)}"
    else:
        reason = "the predicate tests no indexed column"
    return IndexUse(
        name=definition.name,
        columns=definition.key_texts,
        encoding=definition.bitmap_encoding,
        type=definition.type,
        used=bool(serves),
        reason=reason,
    )
