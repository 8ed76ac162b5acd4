"""`make bench-functions`, or `python -m bench.functions`: the rows a second that the functions of SQL see.

A bitmap of a block of `ROWS` rows counts as that many rows, whatever it holds. Beside them: Spark's own AND of two
columns of booleans, and this package's functions of Python, on one core.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import hive_bitmap
from bench import tables
from hive_bitmap.core.bitmaps import ENCODINGS, gap, selection
from hive_bitmap.core.bitmaps.keybytes import key_bytes
from hive_bitmap.core.grammar.script import split

FUNCTIONS = Path(__file__).parents[1] / "ddl" / "functions.sql"
ROWS = 125_000
SHARES = {"half": 0.5, "one in 50": 0.02, "one in 2000": 0.0005}
CALLS = {
    "bitmap_count(plain)": "bitmap_count(plain_a)",
    "gap_count": "gap_count(gap_a, gaps_a)",
    "ewah_count": "ewah_count(ewah_a)",
    "plain_from_gap": "length(plain_from_gap(gap_a, gaps_a))",
    "plain_from_ewah": "length(plain_from_ewah(ewah_a))",
    "plain_and": "length(plain_and(plain_a, plain_b))",
    "plain_or": "length(plain_or(plain_a, plain_b))",
    "plain_and_not": "length(plain_and_not(plain_a, plain_b))",
    "count of AND of two gap-coded": (
        "bitmap_count(plain_and(plain_from_gap(gap_a, gaps_a), plain_from_gap(gap_b, gaps_b)))"
    ),
    "plain_rows": "size(plain_rows(plain_a))",
    "plain_contains": "CAST(plain_contains(plain_a, id) AS int)",
}
Pair = NDArray[np.bool_]  # two of a block: which rows the one has, which the other


@click.command()
@click.option("--blocks", default=400, show_default=True, type=click.IntRange(1), help="Blocks of 125,000 rows.")
@click.option("--repeats", default=3, show_default=True, type=click.IntRange(1), help="Timed turns; the best counts.")
@click.option("--cores", default=os.cpu_count() or 1, show_default=True, type=click.IntRange(1), help="Cores to use.")
def main(blocks: int, repeats: int, cores: int) -> None:
    """Measure the functions of ddl/functions.sql, in millions of rows a second."""
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        spark = hive_bitmap.session(Path(folder) / "warehouse", app_name="bench of functions", master=f"local[{cores}]")
        for part in split(FUNCTIONS.read_text()):
            spark.sql(part.text)
        found = {}
        for name, share in SHARES.items():
            made = [(random.random((2, ROWS)) < share) for _ in range(blocks)]
            for one in made:
                one[:, 0] = True  # a key that does not occur has no bitmap
            found[name] = _measure(spark, Path(folder) / name, made, cores, repeats)
        spark.stop()
    shown = Table(title=f"Functions of SQL: millions of rows a second, on {cores} cores")
    shown.add_column("bitmaps have")
    for name in SHARES:
        shown.add_column(f"{name} of the rows", justify="right")
    for what in next(iter(found.values())):
        shown.add_row(what, *(f"{blocks * ROWS / found[name][what] / 1e6:,.0f}" for name in SHARES))
    tables.show(Console(highlight=False, width=None if sys.stdout.isatty() else 120), shown)


def _measure(spark: SparkSession, folder: Path, made: list[Pair], cores: int, repeats: int) -> dict[str, float]:
    """Seconds of each call, over all blocks."""
    bitmaps = {f"{name}_{side}": column for i, side in enumerate("ab") for name, column in _stored(made, i).items()}
    _register(spark, folder / "bitmaps", pa.table(bitmaps | {"id": pa.array(range(len(made)), pa.int32())}), cores)
    rows = {side: np.concatenate([one[i] for one in made]) for i, side in enumerate("ab")}
    _register(spark, folder / "rows", pa.table(rows), cores)
    found = {
        what: _best(partial(_collect, spark, f"SELECT sum({call}) FROM bitmaps"), repeats)
        for what, call in CALLS.items()
    }
    in_spark = partial(_collect, spark, "SELECT count(*) FROM rows WHERE a AND b")
    found["Spark: count(*) WHERE a AND b"] = _best(in_spark, repeats)
    stored, where = [_stored(made, side) for side in (0, 1)], selection.layout([ROWS] * len(made))

    def in_python() -> None:
        bits = [selection.nothing(where) for _ in stored]
        for into, one in zip(bits, stored, strict=True):
            gap.decode_into(into, [one["gap"], one["gaps"]], where.starts[:-1], where.rows)
        selection.counts(bits[0] & bits[1], where)

    found["Python: count of AND of two gap-coded, one core"] = _best(in_python, repeats)
    return found


def _collect(spark: SparkSession, query: str) -> None:
    spark.sql(query).collect()


def _stored(made: list[Pair], side: int) -> dict[str, pa.Array]:
    """The stored columns of one bitmap of each block."""
    found = {}
    for encoding, names in {"plain": ["plain"], "gap": ["gap", "gaps"], "ewah": ["ewah"]}.items():
        bitmaps = [ENCODINGS[encoding].encode(key_bytes(one[side].astype(np.uint8))[1]) for one in made]
        for name, each in zip(names, zip(*bitmaps, strict=True), strict=True):
            found[name] = pa.concat_arrays([column[-1:] for column in each])
    return found


def _register(spark: SparkSession, folder: Path, rows: pa.Table, cores: int) -> None:
    """A table in memory, an equal part for each core."""
    folder.mkdir(parents=True)
    part = -(-len(rows) // cores)
    for i in range(cores):
        pq.write_table(rows.slice(i * part, part), folder / f"{i}.parquet")
    view = spark.read.parquet(str(folder))
    view.cache().createOrReplaceTempView(folder.name)
    view.count()


def _best(run: Callable[[], object], repeats: int) -> float:
    run()
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


if __name__ == "__main__":
    main()
