"""What is to be reached, and whether it is. Ratios are of medians of one run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from bench.data import KEYS
from bench.measure import DUCKDB, OURS, SPARK, Asked, Results
from hive_bitmap.core.explaining.measures import seconds, size

# Of the bitmap and the range-bitmap index of Apache Paimon 2.0.0 over five such columns of 10 M rows, measured by us
# once on two cores with PySpark 4.1.2; it is not run here, and scaled to the rows of the run.
PAIMON_BITMAP_BYTES = 62.3e6 / 10e6  # a row
PAIMON_RANGE_BITMAP_BYTES = 33.4e6 / 10e6  # a row
PAIMON_SOURCE = "Paimon 2.0.0, five columns of 10 M rows, measured once; in proportion to the rows of this run"
BUILD_RATIO = 1.5
COUNT_RATIO = 8.0
FEW_KEYS = 52
NOT_SLOWER = 1 / 1.05


@dataclass(frozen=True)
class Target:
    """`later` marks what is not promised yet; `figure` says what was measured."""

    what: str
    figure: str
    met: bool
    later: bool = False


def targets(results: Results, rows: int) -> list[Target]:
    """All targets that the run can judge, those to be met now first."""
    found = [*_builds(results), _refresh(results), *_sizes(results, rows)]
    for asked in results.asked:
        found += _counts(asked) if asked.count else _fetches(asked)
    for number, each in enumerate(results.grouped, 1):
        faster = each.race.median(SPARK) / each.race.median(OURS)
        aim = f"aggregates, query {number} >= {COUNT_RATIO:.0f}x faster than Spark"
        found.append(Target(aim, f"{faster:.1f}x", faster >= COUNT_RATIO, later=True))
    return sorted(found, key=lambda target: target.later)


def ratio(asked: Asked, engine: str) -> float:
    """How many times faster than the engine we are."""
    return asked.race.median(engine) / asked.race.median(OURS)


def _builds(results: Results) -> Iterator[Target]:
    for built in results.builds:
        if KEYS[built.column] <= FEW_KEYS:
            found = built.race.median(OURS) / built.race.median(SPARK)
            yield Target(
                f"build {built.column} <= {BUILD_RATIO}x Spark's GROUP BY", f"{found:.2f}x", found <= BUILD_RATIO
            )


def _refresh(results: Results) -> Target:
    found = results.refreshed
    fixed, one_new, alone = median(found.nothing), median(found.one_new), median(found.alone)
    share = (one_new - fixed) / alone
    return Target(f"one new file of {found.files:,} <= 2x its build + {seconds(fixed)}", f"{share:.2f}x", share <= 2)


def _sizes(results: Results, rows: int) -> Iterator[Target]:
    total = sum(built.size for built in results.builds)
    for name, per_row, later in (
        ("bitmap", PAIMON_BITMAP_BYTES, False),
        ("range-bitmap", PAIMON_RANGE_BITMAP_BYTES, True),
    ):
        limit = per_row * rows
        yield Target(f"size of all < {size(int(limit))}, Paimon's {name}", size(total), total < limit, later)
    for built in results.builds:
        for encoding in ("roaring", "ewah"):
            other = results.sizes[built.column][encoding]
            share = f"{100 * built.size / other:.1f} % of it"
            yield Target(f"size of {built.column} < {encoding}", share, built.size < other)


def _counts(asked: Asked) -> Iterator[Target]:
    found = ratio(asked, SPARK)
    name = f"COUNT {asked.question.name} on {asked.table}"
    yield Target(f"{name} >= {COUNT_RATIO:.0f}x faster than Spark", f"{found:.1f}x", found >= COUNT_RATIO)
    if DUCKDB in asked.race.seconds:
        found = ratio(asked, DUCKDB)
        yield Target(f"{name} as fast as DuckDB's scan", f"{found:.2f}x", found >= 1, later=True)


def _fetches(asked: Asked) -> Iterator[Target]:
    wanted = {"Q1": 2.0, "Q2": 3.0, "Q5": NOT_SLOWER}.get(asked.question.name)
    if wanted is None:
        return
    found = ratio(asked, SPARK)
    aim = f">= {wanted:.0f}x faster than Spark" if wanted > 1 else "never more than 5 % slower than Spark"
    yield Target(
        f"fetch {asked.question.name} on {asked.table} {aim}", f"{found:.2f}x", found >= wanted, later=wanted > 1
    )
