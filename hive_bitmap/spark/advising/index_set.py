"""Choose a set of indexes greedily: each step is the one that saves most.

All functions are pure. A step is an index, or several indexes that only together answer a query. The gain of a step is
what it saves in addition to existing indexes and earlier steps. Among steps that save about the same, the step with
the smallest indexes is taken. A step is worth it if it saves more time than its builds take, and if its gain is not
negligible beside what the indexes chosen before it save. If two indexes would narrow the same scan, only the larger
gain is used.
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
    sets_to_look_up,
)

ABOUT = 0.9  # two steps save about the same if one saves at least this share of what the other saves
LITTLE = 0.05  # an index that adds less than this share of a table's savings is not worth it


@dataclass(frozen=True, kw_only=True)
class PossibleIndex:
    """An index that could be created.

    `figures` describe the base table and the keys of the index. `build_seconds` is the time of a build.
    """

    figures: TableFigures
    build_seconds: float


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The observed queries of a table, and the indexes that could serve them.

    `shapes` has the number of queries of each shape. `indexed` has the keys of the existing indexes, and `possible`
    the indexes that could be created, by their keys. `sets` are sets of possible indexes to create together. The other
    fields cache computed gains.
    """

    table: str
    shapes: Mapping[Shape, Tally]
    indexed: Sequence[Columns]
    possible: Mapping[Columns, PossibleIndex]
    sets: Collection[IndexSet]
    _narrowed: dict[tuple[Shape, Columns], Gain] = field(default_factory=dict, repr=False)
    _answered: dict[tuple[Shape, IndexSet], Gain] = field(default_factory=dict, repr=False)

    def gain(self, shape: Shape, indexes: IndexSet) -> Gain:
        """Return the gain of possible indexes for all queries of a shape together.

        The indexes either answer the queries, or one of them narrows the scans; the larger gain counts.
        """
        narrowed = [self._by_narrowing(shape, columns) for columns in indexes]
        return max([self._by_answer(shape, indexes), *narrowed], key=_worth)

    def build_seconds(self, indexes: IndexSet) -> float:
        """Return the total build time of these indexes, in seconds."""
        return math.fsum(self.possible[columns].build_seconds for columns in indexes)

    def _by_narrowing(self, shape: Shape, columns: Columns) -> Gain:
        test = narrowing(shape, columns)
        if test is None:
            return Gain()
        if (shape, columns) not in self._narrowed:
            self._narrowed[shape, columns] = gain(self.shapes[shape], self.possible[columns].figures, test)
        return self._narrowed[shape, columns]

    def _by_answer(self, shape: Shape, indexes: IndexSet) -> Gain:
        """Return the gain of answering the queries of a shape from these indexes.

        The queries use the existing indexes, and at most MOST_TOGETHER of `indexes`: the combination with the largest
        gain. The gain is zero if the existing indexes and `indexes` together do not answer the queries.
        """
        if not answers(shape, [*self.indexed, *indexes]):
            return Gain()
        indexed = [shape.columns_of(keys) for keys in self.indexed]
        missing = [part for part in sets_to_look_up(shape) if not any(part <= index for index in indexed)]
        useful = [index for index in indexes if any(part <= shape.columns_of(index) for part in missing)]
        gains = [
            self._looked_up(shape, frozenset(used))
            for number in range(1, min(len(missing), MOST_TOGETHER) + 1)
            for used in combinations(useful, number)
            if all(any(part <= shape.columns_of(index) for index in used) for part in missing)
        ]
        return max([Gain(), *gains], key=_worth)

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
    """Indexes that are created together, and their additional gain.

    `queries` is the number of queries that gain. `worth_it` says whether the saved time, with all expected repetitions
    of the queries, exceeds the build time, and is large enough compared with what earlier steps save for the same
    table.
    """

    workload: Workload
    indexes: IndexSet
    queries: int
    gain: Gain
    build_seconds: float
    worth_it: bool

    @property
    def index_bytes(self) -> int:
        """The total size of the indexes in bytes."""
        return sum(self.workload.possible[columns].figures.index_bytes for columns in self.indexes)

    @property
    def sorted_indexes(self) -> list[Columns]:
        """The indexes in a fixed order."""
        return sorted(self.indexes, key=lambda columns: (len(columns), sorted(columns)))

    @property
    def rank(self) -> tuple[object, ...]:
        """A sort key: steps that save most come first.

        Steps that save the same come in a fixed order.
        """
        names = [sorted(columns) for columns in self.sorted_indexes]
        return -self.gain.seconds, -self.gain.bytes, self.index_bytes, self.workload.table, names


@dataclass(frozen=True, kw_only=True)
class UnchosenIndex:
    """A possible index that was not chosen.

    `columns` are its columns. `step` is the best step with this index that could follow the chosen steps. `alone` is
    the gain of the best step with this index before any index was chosen.
    """

    columns: Columns
    step: Step
    alone: Gain


def choose(workloads: Sequence[Workload], limit: int, times: int) -> tuple[list[Step], list[UnchosenIndex]]:
    """Choose which of the possible indexes to create, in steps.

    `workloads` has a workload for each table. Return the steps in order, and the indexes that are left out. The steps
    have at most `limit` indexes together. Each query is expected to run `times` times as often as it was seen.
    """
    chosen: list[Step] = []
    have: dict[str, IndexSet] = {workload.table: frozenset() for workload in workloads}
    first_steps = {workload.table: list(_steps(workload, frozenset(), times)) for workload in workloads}
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
        unchosen
        for workload in workloads
        for unchosen in _left_out(
            workload.possible.keys() - have[workload.table], first_steps[workload.table], next_steps[workload.table]
        )
    ]
    return chosen, sorted(left_out, key=lambda unchosen: (*unchosen.step.rank, sorted(unchosen.columns)))


def _best(steps: Sequence[Step]) -> Step:
    """Return the step with the smallest indexes among steps that save about the most.

    If a part of this step's indexes is also a step, the search is repeated among such smaller steps.
    """
    most = max(step.gain.seconds for step in steps)
    alike = [step for step in steps if step.gain.seconds >= ABOUT * most]
    best = min(alike, key=lambda step: (step.index_bytes, *step.rank))
    smaller = [step for step in steps if step.workload is best.workload and step.indexes < best.indexes]
    return _best(smaller) if smaller else best


def _steps(workload: Workload, have: IndexSet, times: int) -> Iterator[Step]:
    """Yield the possible next steps after the indexes in `have` have been chosen.

    Each query is expected to run `times` times as often as it was seen.
    """
    before = {shape: workload.gain(shape, have) for shape in workload.shapes}
    saved_before = math.fsum(gained.seconds for gained in before.values())
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


def _left_out(remaining: Collection[Columns], first: Sequence[Step], last: Sequence[Step]) -> Iterator[UnchosenIndex]:
    """Yield each of the `remaining` indexes with its best steps.

    `first` are the possible steps before the first choice, and `last` the possible steps after the last choice. An
    index is omitted if no step of `first`, or none of `last`, has it.
    """
    for columns in remaining:
        alone, step = (
            min(
                (candidate for candidate in steps if columns in candidate.indexes),
                key=lambda candidate: candidate.rank,
                default=None,
            )
            for steps in (first, last)
        )
        if alone is not None and step is not None:
            yield UnchosenIndex(columns=columns, step=step, alone=alone.gain)
