"""Every entry of an index damaged in every way, without Spark: what plans and counts take of the index is right.

Plans are made, rows selected and keys counted as for a query, on the metastore in memory; Python counts the rows of the
files for comparison. Without a JVM a damage takes a tenth of the time. `--long N` takes N seeds of a thousand damages
each; `--seed S` begins with that seed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hive_bitmap.core.answering.tally import COUNT
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.aggregate_columns import FUNCTIONS, Measure
from hive_bitmap.core.predicates.nodes import And, Compare, IsNull, Or, Predicate, Prefix
from hive_bitmap.core.selecting.lookup_units import LookupUnit
from hive_bitmap.core.selecting.select import Selection, select
from hive_bitmap.spark.metastore import session_settings
from hive_bitmap.spark.preparing.prepare import Prepared, prepare
from hive_bitmap.spark.preparing.request import Request, ResolvedTable
from hive_bitmap.spark.reading.aggregates import known_counts
from hive_bitmap.spark.registry import catalog
from tests.campaigns.damaged import Damaged, require_unharmed
from tests.spark.maintaining.life import external_table, repair

if TYPE_CHECKING:
    from tests.spark.metastore.memory import MemoryMetastore

pytestmark = pytest.mark.random
SHORT, LONG = 100, 1000  # damages of a seed
ROWS = 100  # of a file, in two row groups
COLUMNS = (Column("k", "int"), Column("s", "string"), Column("id", "bigint"))
P = Column("p", "string")
ID = Measure(column="id", functions=FUNCTIONS)
KEYS: tuple[tuple[str, ...], ...] = ((), ("k",), ("s",), ("k", "p"), ("k", "s"))


@dataclass(frozen=True)
class Row:
    """A row of the table; `number` is its place in its file."""

    number: int
    k: int | None
    s: str
    id: int
    p: str


@dataclass(frozen=True)
class Case:
    """A condition: as a tree, and as a function of a row."""

    node: Predicate
    holds: Callable[[Row], bool]


CASES = (
    Case(Compare("k", "=", 3), lambda row: row.k == 3),
    Case(Or((IsNull("k"), Compare("k", ">", 5))), lambda row: row.k is None or row.k > 5),
    Case(And((Compare("k", "<>", 2), Compare("p", "=", "a"))), lambda row: row.k not in (None, 2) and row.p == "a"),
    Case(Prefix("s", "x1"), lambda row: row.s.startswith("x1")),
)


class Read(Damaged):
    """A damaged index of a table that Python has written, and of which plans and counts are made."""

    def make_table(self) -> None:
        self.rows: dict[str, list[Row]] = {}  # by path
        self.compared = Counter[str]()
        for number, p in enumerate("aab"):
            ids = range(number * ROWS, (number + 1) * ROWS)
            rows = [Row(at, None if i % 11 == 0 else i % 7, f"x{i % 23}", i, p) for at, i in enumerate(ids)]
            columns = COLUMNS if self.partitioned else (*COLUMNS, P)
            table = pa.table({one.name: [getattr(row, one.name) for row in rows] for one in columns})
            path = self.folder / "base" / (f"p={p}" if self.partitioned else "") / f"{number}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table.set_column(0, "k", table["k"].cast(pa.int32())), path, row_group_size=ROWS // 2)
            self.rows[f"file:{path}"] = rows
        external_table(self.spark, "t", self.folder / "base", columns, (P,) if self.partitioned else ())
        if self.partitioned:
            repair(self.spark, "t")

    def require_right(self) -> None:
        """Rows are selected for a condition, and keys are counted, as the rows of the files say."""
        case, keys = self.rng.choice(CASES), self.rng.choice(KEYS)
        self.forget()
        self._require_rows(case, self._prepared(case, keys, count=False))
        self.forget()
        self._require_counts(case, keys, self._prepared(case, keys, count=True))
        self.forget()
        self._require_counts(case, keys, self._prepared(case, keys, count=True, measures=(ID,)))

    def _prepared(
        self, case: Case, keys: tuple[str, ...], *, count: bool, measures: tuple[Measure, ...] = ()
    ) -> Prepared:
        session_settings.use_stores(self.spark)
        base, indexes = catalog.table_and_indexes(self.spark, "t")
        resolved = ResolvedTable(base=base, indexes=tuple(indexes), conf={}, predicate=case.node, cores=2)
        request = Request(table="t", predicate=str(case.node), columns=("k", "s", "id"))
        if count:
            request = Request(
                table="t",
                predicate=str(case.node),
                columns=keys,
                count=True,
                keys=keys,
                grouping_sets=(keys,),
                measures=measures,
            )
        return prepare(self.spark, request, resolved)

    def _require_rows(self, case: Case, prepared: Prepared) -> None:
        self.compared["plans" if prepared.results else "plans without index"] += 1
        if prepared.results is None:
            return
        results = prepared.results
        not_looked_up = dict(self.rows)
        for file in results.whole_files:
            del not_looked_up[file.status.path]
        for lookup in results.lookups:
            self.compared["files looked up"] += len(lookup.unit.paths)
            selection = select(lookup.unit, lookup.predicate, {})
            for file, path in enumerate(lookup.unit.paths):
                matching = {row.number for row in not_looked_up.pop(path) if case.holds(row)}
                selected = set(_numbers(selection, lookup.unit, file))
                assert selected >= matching, f"{path}: {sorted(matching - selected)} are not selected"
                assert not selection.exact[file] or selected == matching, f"{path}: {sorted(selected - matching)}"
        missed = [row for rows in not_looked_up.values() for row in rows if case.holds(row)]
        assert not missed, f"files with {len(missed)} matching rows are not read"

    def _require_counts(self, case: Case, keys: tuple[str, ...], prepared: Prepared) -> None:
        found = known_counts(self.spark, prepared)
        what = "sums" if prepared.request.measures else "counts"
        self.compared[f"{what} without index" if found is None else f"{what} by {len(keys)} keys"] += 1
        if found is None:
            return
        unknown = {place.path for place in found[1]}
        assert unknown <= self.rows.keys()
        rows = [row for path, rows in self.rows.items() if path not in unknown for row in rows if case.holds(row)]
        wanted = Counter(tuple(getattr(row, key) for key in keys) for row in rows)
        table = found[0][0]
        columns = [table[key].to_pylist() for key in (*keys, COUNT)]
        counted = {row[:-1]: row[-1] for row in zip(*columns, strict=True) if row[-1]}
        assert counted == wanted, f"{keys} where {case.node}: {counted} and not {dict(wanted)}"
        if not prepared.request.measures:
            return
        ids: dict[tuple[object, ...], list[int]] = {}
        for row in rows:
            ids.setdefault(tuple(getattr(row, key) for key in keys), []).append(row.id)
        columns = [table[key].to_pylist() for key in (*keys, *(f"_{function}_of_id" for function in FUNCTIONS))]
        sums = {row[:-4]: row[-4:] for row in zip(*columns, strict=True)}
        assert sums == {key: (sum(of_key), len(of_key), min(of_key), max(of_key)) for key, of_key in ids.items()}


def _numbers(selection: Selection, unit: LookupUnit, file: int) -> Iterator[int]:
    """Yield the numbers, in a file, of its selected rows."""
    first = 0
    for block in np.flatnonzero(unit.file == file).tolist():
        rows = selection.block_rows(block)
        yield from (first + row for row in (range(int(unit.rows[block])) if rows is None else rows.tolist()))
        first += int(unit.rows[block])


def test_no_damage_of_an_index_misleads_plans(
    in_memory: MemoryMetastore,
    tmp_path: Path,
    seed: int,
    pytestconfig: pytest.Config,
    tell_of_campaign: Callable[[str], None],
) -> None:
    number = LONG if pytestconfig.getoption("--long") else SHORT
    state = Read(in_memory.session(), tmp_path, random.Random(f"damages without Spark {seed}"))
    upkeep = require_unharmed(state, seed, number)
    tell_of_campaign(
        f"damages without Spark, seed {seed}: {number} damages, upkeep {dict(upkeep)}, compared {dict(state.compared)}"
    )
