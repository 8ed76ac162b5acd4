"""Hive 2.3.10 reads tables through our result files: the rows of a full scan, out of fewer splits.

The oracle is Hive itself, without a result file; how many splits there were and how many it kept, its log tells. The
same files are external tables of Hive and of Spark. A result file is all that Hive sees of an index: what is the same
file in several encodings it reads once. `make hive` prints what was read as a table.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.errors import Unsupported
from tests.hive.hive2.hive2_tables import KINDS, ROWS, Base, Reader, make_table, shared_database
from tests.servers.hiveserver import READ, HiveServer, Refused, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.hive, pytest.mark.xdist_group("hive2"), pytest.mark.turn(2)]
PREDICATES = [
    "k IN (2, 17) AND s <> 's1'",
    "k IS NULL AND s IS NOT NULL",
    "k = 40 OR s = 'rare'",
    "NOT (k < 48 OR s = 's2')",
    "p = 'a b' AND k >= 48",
    "k IN (2, 15) AND s = 'rare' OR k = 30",
    "k = 999",
]
BITMAPS = ["plain", "gap", "ewah", "roaring"]
SPLITS = {"1/12 file": 12, "1/3 file": 3, "whole files": 0.01}


@pytest.fixture(scope="module")
def database_of_both(
    spark: SparkSession, hive2: HiveServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Base]:
    with shared_database(spark, hive2, tmp_path_factory.mktemp("base")) as made:
        yield made


@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_of_a_full_scan_out_of_fewer_splits(
    hive2: HiveServer,
    spark: SparkSession,
    database_of_both: Base,
    tmp_path: Path,
    kind: str,
    record_property: Callable[[str, object], None],
) -> None:
    base = make_table(spark, hive2, database_of_both, kind)
    written = {name: result_files(spark, base, name, tmp_path / name) for name in (*BITMAPS, "COMPACT")}
    assert [written[name] for name in BITMAPS] == [written["gap"]] * len(BITMAPS)
    assert written["COMPACT"] != written["gap"]  # it has no rows to combine, so it keeps more blocks
    largest = max(path.stat().st_size for path in base.folder.rglob("p=*/*"))
    readers = {name: Reader(hive2, int(largest / share)) for name, share in SPLITS.items()}
    kept: dict[tuple[str, int, bytes], int] = {}
    for number, (predicate, expected) in enumerate(full_scan(hive2, base).items()):
        assert bool(expected) == (predicate != "k = 999")
        query = f"SELECT id, k, s, p FROM {base.name} WHERE {predicate}"
        for content, result in {written[name][number]: tmp_path / name / f"{number}" for name in written}.items():
            for name, reader in readers.items():
                rows, kept[name, number, content] = reader.rows(query, result)
                assert rows == expected, (predicate, name, result.parent.name)
    hive_bitmap.write_offsets(spark, base.name, None, str(tmp_path / "all"), utf8=True)
    all_of_them = {}
    for name, reader in readers.items():
        rows, every = reader.rows(f"SELECT count(*) FROM {base.name}", tmp_path / "all")
        assert rows == Counter([(ROWS,)])
        all_of_them[name] = every * len(PREDICATES)
    results = []
    for encoding, contents in written.items():
        read = {name: sum(kept[name, number, one] for number, one in enumerate(contents)) for name in readers}
        assert all(read[name] < all_of_them[name] for name in readers)
        told = {name: f"{read[name]} of {all_of_them[name]}" for name in readers}
        results.append({"server": f"Hive {hive2.version}", "table": kind, "encoding": encoding, "rows": "equal"} | told)
    record_property(READ, results)


def full_scan(server: HiveServer, base: Base) -> dict[str, Counter[tuple[Any, ...]]]:
    """The rows of each predicate, of one scan without a result file."""
    named = ", ".join(f"({predicate})" for predicate in PREDICATES)
    any_of_them = " OR ".join(f"({predicate})" for predicate in PREDICATES)
    with contextlib.closing(server.connect()) as plain:
        rows = run(plain, f"SELECT id, k, s, p, {named} FROM {base.name} WHERE {any_of_them}")
    return {name: Counter(row[:4] for row in rows if row[4 + number]) for number, name in enumerate(PREDICATES)}


def result_files(spark: SparkSession, base: Base, name: str, folder: Path) -> list[bytes]:
    """The result file of each predicate, also in the folder under its number; no other index is there meanwhile."""
    folder.mkdir()
    how = {"type": "COMPACT"} if name == "COMPACT" else {"encoding": name}
    built = hive_bitmap.build(spark, base.name, ["k", "s"], **how)
    for number, predicate in enumerate(PREDICATES):
        hive_bitmap.write_offsets(spark, base.name, predicate, str(folder / f"{number}"), utf8=True)
    for report in built:
        hive_bitmap.drop(spark, base.name, report.definition.name)
    return [(folder / f"{number}").read_bytes() for number in range(len(PREDICATES))]


def test_the_limits_of_the_reader_are_told_and_its_folders_are_the_same(
    hive2: HiveServer,
    spark: SparkSession,
    hive2_database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Both limits are errors of Hive's; what only Hive would read is refused before."""
    table, result = f"{hive2_database}.t", tmp_path / "result"
    spark.sql(f"CREATE DATABASE {hive2_database}")
    try:
        make = f"{table} (k int) STORED AS PARQUET LOCATION 'file:{tmp_path}/t'"
        spark.sql(f"CREATE TABLE {make}")
        spark.range(9).selectExpr("CAST(id AS int) AS k").repartition(2).write.insertInto(table)
        hive_bitmap.build(spark, table, ["k"])
        monkeypatch.setattr("hive_bitmap.spark.querying.offsets_file.READER_LIMIT", 100)
        with caplog.at_level("WARNING", "hive_bitmap"):
            hive_bitmap.write_offsets(spark, table, "k >= 0", str(result))
        assert "raise its hive.index.compact.query.max.size" in caplog.text
        with contextlib.closing(hive2.connect()) as connection:
            run(connection, f"CREATE EXTERNAL TABLE {make}")
        for limit in ("size", "entries"):
            reader = Reader(hive2, 1 << 27)
            run(reader.connection, f"SET hive.index.compact.query.max.{limit}=1")
            with pytest.raises(Refused):
                reader.rows(f"SELECT k FROM {table}", result)
        (tmp_path / "t" / "x._COPYING_").write_bytes(b"rows of Hive's")
        with pytest.raises(Unsupported, match=r"Hive may read .*x._COPYING_, which Spark does not read: move it away"):
            hive_bitmap.write_offsets(spark, table, "k = 1", str(result))
    finally:
        spark.sql(f"DROP DATABASE {hive2_database} CASCADE")
