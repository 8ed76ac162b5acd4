"""Footers changed field by field: what a build has opened ends no other process, and no build or query breaks.

`--long N` takes N hundred footers of each format for the functions that open a file, at most 5,000, and N tables.
`--seed S` begins with that seed. A failure prints what was changed.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import multiprocessing
import os
import random
import resource
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import hive_bitmap
from hive_bitmap.core.formats import FORMATS
from hive_bitmap.core.formats.key_values import KeyColumn
from hive_bitmap.errors import FileChanged, Undecodable
from tests.asking import by_index, by_spark
from tests.campaigns.footers import damaged_orc, damaged_parquet

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.random
SHORT, MOST = 40, 5_000
SHORT_TABLES, MOST_TABLES = 2, 100  # of each format, for builds and queries
ROWS, BLOCK_ROWS = 2_000, 500
SECONDS = 30  # after which a child is taken to hang
MEMORY = 6 << 30  # of a child, so that a size which a footer invents is refused and not tried
SCHEMA = [
    KeyColumn("k", "int", "UTC", 0),
    KeyColumn("s", "string", "UTC", 1),
    KeyColumn("d", "date", "UTC", 2),
    KeyColumn("n", "decimal(10,2)", "UTC", 3),
    KeyColumn("at", "timestamp", "UTC", 4),
    KeyColumn("f", "double", "UTC", 5),
    KeyColumn("x", "binary", "UTC", 6),
    KeyColumn("l", "array<int>", "UTC", 7),
    KeyColumn("st", "struct<a:int,b:string>", "UTC", 8),
]
CHILDREN = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload([__name__])
DAMAGE = {"parquet": damaged_parquet, "orc": damaged_orc}


def table_of(rows: int) -> pa.Table:
    numbers = range(rows)
    return pa.table(
        {
            "k": pa.array([n % 50 for n in numbers], pa.int32()),
            "s": [None if n % 11 == 0 else f"s{n % 7}" for n in numbers],
            "d": [dt.date(2020, 1, 1 + n % 28) for n in numbers],
            "n": pa.array([decimal.Decimal(n) / 4 for n in numbers], pa.decimal128(10, 2)),
            "at": pa.array([dt.datetime(2020, 1, 1, n % 24) for n in numbers], pa.timestamp("us", tz="UTC")),
            "f": [n / 3 for n in numbers],
            "x": [bytes([n % 256]) * 3 for n in numbers],
            "l": pa.array([[n] * (n % 3) for n in numbers], pa.list_(pa.int32())),
            "st": [{"a": n, "b": str(n)} for n in numbers],
        },
    )


def write(path: Path, format: str, rng: random.Random) -> None:
    """Write a file of all types, in one of several ways."""
    table = table_of(ROWS)
    if format == "orc":
        orc.write_table(table, path, compression="uncompressed", stripe_size=1, batch_size=BLOCK_ROWS)
        return
    by_spark = table.replace_schema_metadata({"org.apache.spark.version": "4.0.0"})
    pq.write_table(
        by_spark if rng.random() < 0.5 else table,
        path,
        row_group_size=BLOCK_ROWS,
        use_dictionary=rng.random() < 0.5,
        write_page_index=rng.random() < 0.5,
        data_page_version=rng.choice(["1.0", "2.0"]),
        use_deprecated_int96_timestamps=rng.random() < 0.3,
    )


def read_as_a_build(format: Any, path: str) -> list[KeyColumn]:
    """Do what a task of a build does with a file; return the columns that other processes may read."""
    handle = format.open_file(path)
    format.rehearse(handle, SCHEMA)
    format.nested_marks(handle, SCHEMA)
    blocks, only = format.blocks(handle), format.spark_only_columns(handle, SCHEMA)
    format.names(handle), format.by_name(handle), format.column_bytes(handle, SCHEMA[:2])
    for column in SCHEMA[:7]:
        try:
            for block in np.flatnonzero(blocks.rows).tolist():
                format.key_columns(handle, block, [column])
        except Undecodable:
            only[column.name] = "it cannot be decoded"
    return [column for column in SCHEMA if column.name not in only]


def read_as_a_query(format: Any, path: str, sound: str, columns: list[KeyColumn]) -> None:
    """Do what the process does that planned a query, and executes it."""
    format.bytes_at_once(path, columns)
    blocks = format.blocks(format.open_file(path))
    few = [(block, np.array([0])) for block in np.flatnonzero(blocks.rows).tolist()]
    for selection in (few, [(block, None) for block, _ in few]):
        for _ in format.read_rows(path, columns, selection):
            pass
    format.read_together([(sound, [(0, np.array([1]))]), (path, few[:2])], columns)


def use(say: Callable[[str], None], name: str, path: str, sound: str) -> None:
    """Open a file as a build does, then as a query does; say how far it came, or which error was not expected."""
    format = FORMATS[name]
    try:
        say("build")
        columns = read_as_a_build(format, path)
        say("query")
        read_as_a_query(format, path, sound, columns)
        say("read")
    except Undecodable:
        say("undecodable")
    except FileChanged:
        say("changed")
    except BaseException as e:  # noqa: BLE001 - which is told by the parent
        say(f"unexpected {type(e).__name__}: {e}")


def in_child(act: Callable[..., None], *values: str) -> str:
    """Run a function of a module in a child process; return what it said, and how it ended unless it did by itself.

    The child is a fork of a server that runs no threads: in a fork of this process, the threads of Arrow and DuckDB
    that other tests have started would be missing, and reads would wait for them for ever.
    """
    ours, theirs = multiprocessing.Pipe(duplex=False)
    child = CHILDREN.Process(target=_child, args=(theirs, act, *values))
    child.start()
    theirs.close()
    said = []
    with contextlib.suppress(EOFError):
        while True:
            said.append(ours.recv())
    child.join()
    assert child.exitcode is not None
    if child.exitcode > 0:
        said.append(f"unexpected exit status {child.exitcode}")
    return " ".join(said + ([signal.Signals(-child.exitcode).name] if child.exitcode < 0 else []))


def _child(told: Connection, act: Callable[..., None], *values: str) -> None:
    """Call a function with bounded memory and time, and with what sends a text to the parent."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(SECONDS)
    act(told.send, *values)
    told.close()
    os._exit(0)


def is_finding(said: str) -> bool:
    """Whether a process died that opened the file after the build, or an error was none that is expected."""
    return "unexpected" in said or "SIGALRM" in said or ("query" in said and "SIG" in said)


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_a_file_that_a_build_has_opened_ends_no_process(
    tmp_path: Path, format: str, pytestconfig: pytest.Config, tell_of_campaign: Callable[[str], None]
) -> None:
    rounds = min(100 * pytestconfig.getoption("--long"), MOST) or SHORT
    first = pytestconfig.getoption("--seed")
    counts, findings = Counter[str](), list[str]()
    sound, path = tmp_path / f"sound.{format}", tmp_path / f"changed.{format}"
    for number in range(rounds):
        rng = random.Random(f"footer {format} {first} {number}")
        if number % 50 == 0:
            write(sound, format, rng)
            data = sound.read_bytes()
        content, what = DAMAGE[format](data, rng)
        path.write_bytes(content)
        said = in_child(use, format, f"file:{path}", f"file:{sound}")
        counts[said.partition(":")[0]] += 1
        if is_finding(said):
            findings.append(f"{number}: {what} -> {said[:300]}")
    tell_of_campaign(f"footers of {format}, seed {first}: {rounds}, {dict(sorted(counts.items()))}")
    assert not findings, f"{len(findings)} findings\n" + "\n".join(findings[:40])


QUERIES = ("SELECT s, n FROM t WHERE k = 3", "SELECT k, count(*) FROM t WHERE k < 4 GROUP BY k")
TYPES = (
    "k int, s string, d date, n decimal(10,2), at timestamp, f double, x binary, l array<int>,"
    " st struct<a:int,b:string>"
)
WAYS = ("", "rows", "blocks")


def outcome(spark: SparkSession, query: str, strategy: str | None) -> tuple[str, list[str]]:
    """What comes of a query, with the rule off if there is no strategy: its rows, or the kind of its error."""
    try:
        found = by_spark(spark, query) if strategy is None else by_index(spark, query, strategy, strict="false")
    except Exception as e:  # noqa: BLE001 - the errors of Spark for a damaged file are of many classes
        return type(e).__name__, []
    return "rows", sorted(found.rows)


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_builds_and_queries_go_on(
    spark: SparkSession,
    database: str,
    tmp_path: Path,
    format: str,
    pytestconfig: pytest.Config,
    tell_of_campaign: Callable[[str], None],
) -> None:
    """A table of a sound file and a changed one is indexed. Each query answers, or fails where plain Spark fails."""
    tables = min(pytestconfig.getoption("--long"), MOST_TABLES) or SHORT_TABLES
    first = pytestconfig.getoption("--seed")
    counts, findings = Counter[str](), list[str]()
    for number in range(tables):
        rng = random.Random(f"table {format} {first} {number}")
        folder = tmp_path / f"t{number}"
        folder.mkdir()
        write(folder / f"a.{format}", format, rng)
        content, what = DAMAGE[format]((folder / f"a.{format}").read_bytes(), rng)
        (folder / f"b.{format}").write_bytes(content)
        spark.sql(f"CREATE TABLE t ({TYPES}) USING {format} LOCATION '{folder}'")
        try:
            hive_bitmap.estimate(spark, "t", ["k"])
            [report] = hive_bitmap.build(spark, "t", ["k"])
        except Exception as e:  # noqa: BLE001 - collected, so that one run tells of all
            findings.append(f"{number}: {what} -> {type(e).__name__}: {str(e)[:300]}")
        else:
            counts["unindexed" if report.unindexed else "indexed"] += 1
            for query in QUERIES:
                wanted = outcome(spark, query, None)
                for way in WAYS:
                    found = outcome(spark, query, way)
                    told = "same" if found == wanted else f"{found[0]} where Spark has {wanted[0]}"
                    counts[told] += 1
                    if told != "same" and wanted[0] == "rows":
                        findings.append(f"{number}: {what} -> {query} by {way or 'default'}: {told}")
        hive_bitmap.drop_table(spark, "t")
    tell_of_campaign(
        f"tables with a changed footer of {format}, seed {first}: {tables}, {dict(sorted(counts.items()))}"
    )
    assert not findings, f"{len(findings)} findings\n" + "\n".join(findings[:40])
