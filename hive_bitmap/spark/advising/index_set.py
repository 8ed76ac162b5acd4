"""Choose a set of indexes greedily: always the step that saves most, as long as a step is worth it. No Spark.

A step is an index, or several that only together answer a query. What it saves is what the queries gain more with it,
beside the indexes that exist and those of the steps before. Of steps that save about as much the smallest is taken. A
step is worth it if it saves more time than its builds take, and not little beside what the set saves already. Of two
indexes that would narrow the same scan, only the better one counts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from hive_bitmap.spark.advising.gains import Gain, TableFigures, gain, gain_by_answers
from hive_bitmap.spark.advising.observed import Shape, Tally
from hive_bitmap.spark.advising.useful_columns import (
    MOST_TOGETHER,
    Columns,
    IndexSet,
    answers,
    narrowing,
    needed,
    parts,
)

ABOUT = 0.9  # of what another step saves is about as much
LITTLE = 0.05  # of what the set of a table saves: another index is not worth less


@dataclass(frozen=True, kw_only=True)
class PossibleIndex:
    """An index that could be created: the table with its keys as prices see them, and the seconds of its build."""

    figures: TableFigures
    build_seconds: float


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The queries of a table, and the indexes that it has and that it could have.

    `sets` are indexes to create together, each of which is `possible`. Gains are kept once they are known.
    """

    table: str
    shapes: Mapping[Shape, Tally]
    indexed: Sequence[Columns]
    possible: Mapping[Columns, PossibleIndex]
    sets: Collection[IndexSet]
    _narrowed: dict[tuple[Shape, Columns], Gain] = field(default_factory=dict, repr=False)
    _answered: dict[tuple[Shape, IndexSet], Gain] = field(default_factory=dict, repr=False)

    def gain(self, shape: Shape, indexes: IndexSet) -> Gain:
        """Return what these indexes save the queries of a shape: by an answer, or by narrowing its scan."""
        narrowed = [self._by_narrowing(shape, columns) for columns in indexes]
        return max([self._by_answer(shape, indexes), *narrowed], key=_worth)

    def build_seconds(self, indexes: IndexSet) -> float:
        """Return the seconds of the builds of these indexes."""
        return math.fsum(self.possible[columns].build_seconds for columns in indexes)

    def _by_narrowing(self, shape: Shape, columns: Columns) -> Gain:
        test = narrowing(shape, columns)
        if test is None:
            return Gain()
        if (shape, columns) not in self._narrowed:
            self._narrowed[shape, columns] = gain(self.shapes[shape], self.possible[columns].figures, test)
        return self._narrowed[shape, columns]

    def _by_answer(self, shape: Shape, indexes: IndexSet) -> Gain:
        """Return what an answer saves that is looked up in the best few of these indexes; nothing if there is none."""
        if not answers(shape, [*self.indexed, *indexes]):
            return Gain()
        missing = [part for part in parts(shape) if not any(part <= index for index in self.indexed)]
        useful = [index for index in indexes if any(part <= index for part in missing)]
        found = [
            self._looked_up(shape, frozenset(used))
            for number in range(1, min(len(missing), MOST_TOGETHER) + 1)
            for used in combinations(useful, number)
            if all(any(part <= index for index in used) for part in missing)
        ]
        return max([Gain(), *found], key=_worth)

    def _looked_up(self, shape: Shape, used: IndexSet) -> Gain:
        if (shape, used) not in self._answered:
            all_figures = [self.possible[columns].figures for columns in used]
            together = replace(
                all_figures[0],
                index_bytes=sum(figures.index_bytes for figures in all_figures),
                key=min((figures.key for figures in all_figures), key=lambda key: key.of_rows),
            )
            self._answered[shape, used] = gain_by_answers(self.shapes[shape], together, len(needed(shape)))
        return self._answered[shape, used]


def _worth(gain: Gain) -> tuple[float, int]:
    return gain.seconds, gain.bytes


@dataclass(frozen=True, kw_only=True)
class Step:
    """Indexes that are created together, the queries that gain more with them, and how much more.

    `worth_it` says whether that pays for the builds, and is not little beside what the set saves without them.
    """

    workload: Workload
    indexes: IndexSet
    queries: int
    gain: Gain
    build_seconds: float
    worth_it: bool

    @property
    def index_bytes(self) -> int:
        """The size of the indexes."""
        return sum(self.workload.possible[columns].figures.index_bytes for columns in self.indexes)

    @property
    def sorted_indexes(self) -> list[Columns]:
        """The indexes in an order that is always the same."""
        return sorted(self.indexes, key=lambda columns: (len(columns), sorted(columns)))

    @property
    def rank(self) -> tuple[object, ...]:
        """What sorts the steps that save most first, and equal ones always alike."""
        names = [sorted(columns) for columns in self.sorted_indexes]
        return -self.gain.seconds, -self.gain.bytes, self.index_bytes, self.workload.table, names


@dataclass(frozen=True, kw_only=True)
class UnchosenIndex:
    """A possible index that was not chosen.

    `step` is the best step with it after those that were chosen; `alone` is what the best step with it would save if
    none was.
    """

    columns: Columns
    step: Step
    alone: Gain


def choose(workloads: Sequence[Workload], limit: int, times: int) -> tuple[list[Step], list[UnchosenIndex]]:
    """Return the steps to take, in their order, and the possible indexes that are left out of the set.

    The set has at most `limit` indexes. Each query is expected `times` as often as it was seen.
    """
    chosen: list[Step] = []
    have: dict[str, IndexSet] = {one.table: frozenset() for one in workloads}
    first_steps = {one.table: list(_steps(one, frozenset(), times)) for one in workloads}
    next_steps = dict(first_steps)
    while True:
        room = limit - sum(map(len, have.values()))
        steps = [step for steps in next_steps.values() for step in steps if step.worth_it and len(step.indexes) <= room]
        if not steps:
            break
        best = _best(steps)
        chosen.append(best)
        table = best.workload.table
        have[table] |= best.indexes
        next_steps[table] = list(_steps(best.workload, have[table], times))
    left_out = [
        one
        for each in workloads
        for one in _left_out(each.possible.keys() - have[each.table], first_steps[each.table], next_steps[each.table])
    ]
    return chosen, sorted(left_out, key=lambda one: (*one.step.rank, sorted(one.columns)))


def _best(steps: Sequence[Step]) -> Step:
    """Return the smallest of the steps that save about most, or the best part of it if a part is a step, too."""
    most = max(step.gain.seconds for step in steps)
    alike = [step for step in steps if step.gain.seconds >= ABOUT * most]
    best = min(alike, key=lambda step: (step.index_bytes, *step.rank))
    parts_of_it = [step for step in steps if step.workload is best.workload and step.indexes < best.indexes]
    return _best(parts_of_it) if parts_of_it else best


def _steps(workload: Workload, have: IndexSet, times: int) -> Iterator[Step]:
    """Yield what could be added to the indexes chosen so far, each set once."""
    before = {shape: workload.gain(shape, have) for shape in workload.shapes}
    saved_before = math.fsum(one.seconds for one in before.values())
    for indexes in {indexes - have for indexes in workload.sets} - {frozenset()}:
        queries, saved, seconds = 0, 0, 0.0
        for shape, tally in workload.shapes.items():
            more = workload.gain(shape, have | indexes)
            if more.seconds > before[shape].seconds:
                queries += tally.queries
                saved += max(more.bytes - before[shape].bytes, 0)
                seconds += more.seconds - before[shape].seconds
        build = workload.build_seconds(indexes)
        yield Step(
            workload=workload,
            indexes=indexes,
            queries=queries,
            gain=Gain(saved, seconds),
            build_seconds=build,
            worth_it=seconds * times > build and seconds >= LITTLE * saved_before,
        )


def _left_out(left: Collection[Columns], first: Sequence[Step], last: Sequence[Step]) -> Iterator[UnchosenIndex]:
    """Yield what is `left`, with the best steps with it before anything was chosen and after all was."""
    for columns in left:
        alone, step = (
            min((one for one in steps if columns in one.indexes), key=lambda one: one.rank, default=None)
            for steps in (first, last)
        )
        if alone is not None and step is not None:
            yield UnchosenIndex(columns=columns, step=step, alone=alone.gain)
