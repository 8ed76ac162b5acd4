"""`make bench-hive`: indexes of Hive 2.3.10, as its REBUILD makes them and as `export-hive` does, on the same rows."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import hive_bitmap
from hive_bitmap.hiveserver.connection import Server
from hive_bitmap.hiveserver.hive2_index import register_index
from hive_bitmap.index.hive2 import drop
from hive_bitmap.index.hive2_export import export
from tests.integration.servers import hive2
from tests.integration.servers.hiveserver import HiveServer, Refused, run

KEYS = 52
ASKED = (0, 10, 20, 30, 40, 51)  # keys whose rows are counted through each index
STORED = {
    "TEXTFILE": "'none'='none'",
    "PARQUET": "'parquet.block.size'='1048576'",
    "ORC": "'orc.stripe.size'='1048576', 'orc.compress'='ZLIB'",
}
BUILT_IN, READ_IN = 8 << 20, 3 << 20  # bytes of a split when Hive builds, and when it reads
COLUMNS = "(id bigint, k int, note string)"
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
    """What one way to an index took and gave; `failed` says why there is none."""

    stored: str
    built_by: str
    type: str
    seconds: float = 0.0
    size: int = 0
    lost: int = 0
    asked: int = 0
    failed: str = ""


@click.command()
@click.option("--rows", default="1e6", show_default=True, help="Rows of each table.")
def main(rows: str) -> None:
    """Build indexes on 52 values in text, Parquet and ORC, by Hive and by us, and count rows through them."""
    with tempfile.TemporaryDirectory() as folder, Console(stderr=True).status("starting") as status:
        spark = hive_bitmap.session(Path(folder) / "warehouse", conf={"spark.ui.enabled": "false"})
        (Path(folder) / "hive").mkdir()
        with hive2.serving(Path(folder) / "hive") as server:
            results = list(_measure(spark, server, Path(folder), int(float(rows)), status.update))
        spark.stop()
    _show(results, int(float(rows)))


def _measure(
    spark: SparkSession, server: HiveServer, folder: Path, rows: int, say: Callable[[str], None]
) -> Iterator[Result]:
    say("making the data")
    key = f"CAST(pmod(hash(id), {KEYS}) AS int) AS k"
    source = spark.range(rows).selectExpr("id", key, "concat('a note of some length about row ', id) AS note")
    source.coalesce(1).write.option("compression", "none").parquet(f"{folder}/source")
    with _session(server, BUILT_IN) as hive:
        run(hive, f"CREATE EXTERNAL TABLE source {COLUMNS} STORED AS PARQUET LOCATION 'file:{folder}/source'")
        for stored, properties in STORED.items():
            table = f"b_{stored.lower()}"
            make = f"{table} {COLUMNS} STORED AS {stored} LOCATION 'file:{folder}/{table}' TBLPROPERTIES ({properties})"
            run(hive, f"CREATE EXTERNAL TABLE {make}")
            with contextlib.closing(server.connect()) as plain:
                run(plain, f"INSERT INTO {table} SELECT * FROM source")
            spark.sql(f"CREATE TABLE {make}")
            expected = dict(run(hive, f"SELECT k, count(*) FROM {table} GROUP BY k"))
            for type in ("BITMAP", "COMPACT"):
                say(f"{stored}: {type} by Hive")
                yield _by_hive(server, hive, stored, type, expected)
                if stored != "TEXTFILE":  # of text Hive's own is right, and ours is not exported
                    say(f"{stored}: {type} by hive_bitmap")
                    yield _by_us(spark, server, hive, folder, stored, type, expected)


def _by_hive(server: HiveServer, hive: Any, stored: str, type: str, expected: dict[int, int]) -> Result:
    table = f"b_{stored.lower()}"
    run(hive, f"CREATE INDEX own ON TABLE {table} (k) AS '{type}' WITH DEFERRED REBUILD")
    start = time.perf_counter()
    try:
        run(hive, f"ALTER INDEX own ON {table} REBUILD")
        seconds = time.perf_counter() - start
        size = _size(server.warehouse / f"default__{table}_own__")
        return Result(stored, "REBUILD", type, seconds, size, *_lost(server, table, expected))
    except Refused:
        return Result(stored, "REBUILD", type, failed="fails")
    finally:
        run(hive, f"DROP INDEX own ON {table}")


def _by_us(
    spark: SparkSession, server: HiveServer, hive: Any, folder: Path, stored: str, type: str, expected: dict[int, int]
) -> Result:
    table = f"b_{stored.lower()}"
    start = time.perf_counter()
    hive_bitmap.build(spark, table, ["k"], name=type.lower(), type=type, encoding="ewah")
    exported = export(spark, table, type.lower(), f"{folder}/exported")
    register_index(Server(hive), exported)
    seconds = time.perf_counter() - start
    try:
        return Result(
            stored,
            "export-hive",
            type,
            seconds,
            _size(Path(exported.root.removeprefix("file:"))),
            *_lost(server, table, expected),
        )
    finally:
        run(hive, drop(exported))


def _lost(server: HiveServer, table: str, expected: dict[int, int]) -> tuple[int, int]:
    """Of the rows that were asked for through the index: how many did not come, and how many there are."""
    with _session(server, READ_IN) as hive:
        found = {key: run(hive, f"SELECT count(*) FROM {table} WHERE k = {key}")[0][0] for key in ASKED}
    return sum(expected[key] - found[key] for key in ASKED), sum(expected[key] for key in ASKED)


@contextlib.contextmanager
def _session(server: HiveServer, split: int) -> Iterator[Any]:
    sizes = dict.fromkeys(["fs.local.block.size", "mapreduce.input.fileinputformat.split.maxsize"], str(split))
    with contextlib.closing(server.connect(**THROUGH_INDEX, **sizes)) as connection:
        yield connection


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("[!_.]*") if path.is_file())


def _show(results: list[Result], rows: int) -> None:
    table = Table(title=f"an index on {KEYS} values in {rows:,} rows, for Hive 2.3.10")
    for name in ("table", "type", "built by", "seconds", "size", "rows lost of those asked for"):
        table.add_column(name, justify="left" if name in ("table", "type", "built by") else "right")
    for one in results:
        figures = (
            [one.failed, "", ""]
            if one.failed
            else [f"{one.seconds:.1f}", f"{one.size / 1e6:.2f} MB", f"{one.lost:,} of {one.asked:,}"]
        )
        table.add_row(one.stored, one.type, one.built_by, *figures)
    Console(highlight=False).print(table)


if __name__ == "__main__":
    main()
