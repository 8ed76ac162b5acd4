"""`make bench-hive`: indexes of Hive 2.3.10, as its REBUILD makes them and as `export-hive` does, on the same rows."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from pyspark.sql import SparkSession

import hive_bitmap
from hive_bitmap.hive.hive2.ddl import drop
from hive_bitmap.hive.hive2.export import export
from hive_bitmap.hive.hiveserver.connection import Server
from hive_bitmap.hive.hiveserver.register import register_index
from tests.servers import hive2
from tests.servers.hiveserver import HiveServer, JobFailed, Refused, run

KEYS = 52
ASKED = (0, 10, 20, 30, 40, 51)  # keys whose rows are counted through each index
STORED = {
    "TEXTFILE": "'none'='none'",
    "PARQUET": "'parquet.block.size'='1048576'",
    "ORC": "'orc.stripe.size'='1048576', 'orc.compress'='ZLIB'",
}
TYPES = ("BITMAP", "COMPACT")
BUILT_IN, READ_IN = 8 << 20, 3 << 20  # bytes of a split when Hive builds, and when it reads
PATIENCE = 3600  # seconds that a statement may take
COLUMNS = "(id bigint, k int, note string)"
LINE = "{:<10}{:<9}{:<13}{:>8}{:>12}{:>27}"
THROUGH_INDEX = {
    "hive.optimize.index.filter": "true",
    "hive.optimize.index.filter.compact.minsize": "0",
    "hive.fetch.task.conversion": "none",
    "hive.input.format": "org.apache.hadoop.hive.ql.io.HiveInputFormat",
    "hive.exec.orc.split.strategy": "ETL",
    "fs.file.impl.disable.cache": "true",
}


@dataclass(frozen=True)
class Result:
    """What an index took, and how many of the rows that were asked for through it did not come."""

    seconds: float
    size: int
    lost: int
    asked: int


@dataclass(frozen=True)
class Bench:
    """The servers and the folder of a run, and whom to tell what is done."""

    spark: SparkSession
    server: HiveServer
    folder: Path
    say: Callable[[str], None]


@click.command()
@click.option("--rows", default="1e6", show_default=True, help="Rows of each table.")
def main(rows: str) -> None:
    """Build indexes on 52 values in text, Parquet and ORC, by Hive and by us, and count rows through them.

    A line comes when it is known; what is done meanwhile goes to stderr.
    """
    count = int(float(rows))
    say = partial(_say, time.monotonic())
    with tempfile.TemporaryDirectory() as folder:
        spark = hive_bitmap.session(Path(folder) / "warehouse", conf={"spark.ui.enabled": "false"})
        (Path(folder) / "hive").mkdir()
        say("starting Hive")
        with hive2.serving(Path(folder) / "hive") as server:
            _measure(Bench(spark, replace(server, seconds=PATIENCE), Path(folder), say), count)
        spark.stop()


def _measure(bench: Bench, rows: int) -> None:
    bench.say(f"making {rows:,} rows")
    key = f"CAST(pmod(hash(id), {KEYS}) AS int) AS k"
    source = bench.spark.range(rows).selectExpr("id", key, "concat('a note of some length about row ', id) AS note")
    source.coalesce(1).write.option("compression", "none").parquet(f"{bench.folder}/source")
    kinds = [(stored, type, by) for stored in STORED for type in TYPES for by in (_by_hive, _by_us)]
    kinds = [kind for kind in kinds if kind[0] != "TEXTFILE" or kind[2] is _by_hive]  # ours of text is not exported
    _print(f"an index on {KEYS} values in {rows:,} rows, for Hive {hive2.VERSION}")
    _print(LINE.format("table", "type", "built by", "seconds", "size", "rows lost of those asked"))
    with _session(bench.server, BUILT_IN) as hive:
        run(hive, f"CREATE EXTERNAL TABLE source {COLUMNS} STORED AS PARQUET LOCATION 'file:{bench.folder}/source'")
        counts = {stored: _make_table(bench, hive, stored) for stored in STORED}
        for number, (stored, type, by) in enumerate(kinds, 1):
            told = replace(bench, say=partial(_numbered, bench.say, f"{number} of {len(kinds)}: {stored} {type}"))
            name = "REBUILD" if by is _by_hive else "export-hive"
            try:
                one = by(told, hive, stored, type, counts[stored])
            except Refused as e:
                _print(f"{stored:<10}{type:<9}{name:<13}fails: {e}")
            else:
                figures = (f"{one.seconds:.1f}", f"{one.size / 1e6:.2f} MB", f"{one.lost:,} of {one.asked:,}")
                _print(LINE.format(stored, type, name, *figures))


def _make_table(bench: Bench, hive: Any, stored: str) -> dict[int, int]:
    """A table of both engines, written by Hive; how many rows each key has."""
    bench.say(f"writing {stored}")
    table = f"b_{stored.lower()}"
    tail = f"STORED AS {stored} LOCATION 'file:{bench.folder}/{table}' TBLPROPERTIES ({STORED[stored]})"
    run(hive, f"CREATE EXTERNAL TABLE {table} {COLUMNS} {tail}")
    with contextlib.closing(bench.server.connect()) as plain:
        run(plain, f"INSERT INTO {table} SELECT * FROM source")
    bench.spark.sql(f"CREATE TABLE {table} {COLUMNS} {tail}")
    return dict(run(hive, f"SELECT k, count(*) FROM {table} GROUP BY k"))


def _by_hive(bench: Bench, hive: Any, stored: str, type: str, expected: dict[int, int]) -> Result:
    table = f"b_{stored.lower()}"
    run(hive, f"CREATE INDEX own ON TABLE {table} (k) AS '{type}' WITH DEFERRED REBUILD")
    try:
        seconds = _rebuild(bench, hive, table)
        size = _size(bench.server.warehouse / f"default__{table}_own__")
        return Result(seconds, size, *_lost(bench, table, expected))
    finally:
        run(hive, f"DROP INDEX own ON {table}")


def _rebuild(bench: Bench, hive: Any, table: str, tries: int = 2) -> float:
    """The seconds of a REBUILD. A job that failed is tried once more, and only the last try is timed."""
    bench.say("REBUILD")
    start = time.perf_counter()
    try:
        run(hive, f"ALTER INDEX own ON {table} REBUILD", tries=1)
    except JobFailed as e:
        if tries == 1:
            raise
        bench.say(f"failed after {time.perf_counter() - start:.0f} s, tried again: {e}")
        return _rebuild(bench, hive, table, tries - 1)
    return time.perf_counter() - start


def _by_us(bench: Bench, hive: Any, stored: str, type: str, expected: dict[int, int]) -> Result:
    table = f"b_{stored.lower()}"
    bench.say("export-hive")
    start = time.perf_counter()
    hive_bitmap.build(bench.spark, table, ["k"], name=type.lower(), type=type, encoding="ewah")
    exported = export(bench.spark, table, type.lower(), f"{bench.folder}/exported")
    register_index(Server(hive), exported)
    seconds = time.perf_counter() - start
    try:
        return Result(seconds, _size(Path(exported.root.removeprefix("file:"))), *_lost(bench, table, expected))
    finally:
        run(hive, drop(exported))


def _lost(bench: Bench, table: str, expected: dict[int, int]) -> tuple[int, int]:
    """Of the rows that were asked for through the index: how many did not come, and how many there are."""
    found = {}
    with _session(bench.server, READ_IN) as hive:
        for number, key in enumerate(ASKED, 1):
            bench.say(f"asking, {number} of {len(ASKED)}")
            found[key] = run(hive, f"SELECT count(*) FROM {table} WHERE k = {key}")[0][0]
    return sum(expected[key] - found[key] for key in ASKED), sum(expected[key] for key in ASKED)


@contextlib.contextmanager
def _session(server: HiveServer, split: int) -> Iterator[Any]:
    sizes = dict.fromkeys(["fs.local.block.size", "mapreduce.input.fileinputformat.split.maxsize"], str(split))
    with contextlib.closing(server.connect(**THROUGH_INDEX, **sizes)) as connection:
        yield connection


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("[!_.]*") if path.is_file())


def _print(line: str) -> None:
    print(line, flush=True)


def _say(start: float, what: str) -> None:
    print(f"{time.monotonic() - start:6.0f} s  {what}", file=sys.stderr, flush=True)


def _numbered(say: Callable[[str], None], number: str, what: str) -> None:
    say(f"{number}: {what}")


if __name__ == "__main__":
    main()
