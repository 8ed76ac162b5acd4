"""Hive 2.3.10 reads tables through our result files: the rows of a full scan, out of fewer splits.

The oracle is Hive itself, without a result file; how many splits there were and how many it kept, its log tells. The
same files are external tables of Hive and of Spark. `make hive` prints what was read as a table.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.errors import Unsupported
from tests.integration.hive2_tables import KINDS, ROWS, Base, Reader, make_table, shared_database
from tests.integration.servers.hiveserver import READ, HiveServer, Refused, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.hive, pytest.mark.xdist_group("hive2")]
PREDICATES = [
    "k IN (2, 17) AND s <> 's1'",
    "k IS NULL AND s IS NOT NULL",
    "k = 40 OR s = 'rare'",
    "NOT (k < 48 OR s = 's2')",
    "p = 'a b' AND k >= 48",
    "k = 999",
]
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
    hive_bitmap.build(spark, base.name, ["k", "s"], encoding=KINDS[kind].encoding)
    largest = max(path.stat().st_size for path in base.folder.rglob("p=*/*"))
    readers = {name: Reader(hive2, int(largest / share)) for name, share in SPLITS.items()}
    read: Counter[str] = Counter()
    results = []
    for number, predicate in enumerate(PREDICATES):
        result = tmp_path / f"{number}"
        hive_bitmap.write_offsets(spark, base.name, predicate, str(result), utf8=True)
        with contextlib.closing(hive2.connect()) as plain:
            expected = Counter(run(plain, f"SELECT id, k, s, p FROM {base.name} WHERE {predicate}"))
        assert bool(expected) == (predicate != "k = 999")
        for name, reader in readers.items():
            rows, kept = reader.rows(f"SELECT id, k, s, p FROM {base.name} WHERE {predicate}", result)
            assert rows == expected, (predicate, name)
            read[name] += kept
    hive_bitmap.write_offsets(spark, base.name, None, str(tmp_path / "all"), utf8=True)
    for name, reader in readers.items():
        rows, every = reader.rows(f"SELECT count(*) FROM {base.name}", tmp_path / "all")
        assert rows == Counter([(ROWS,)])
        all_of_them = every * len(PREDICATES)
        assert read[name] < all_of_them
        told = f"{read[name]} of {all_of_them}"
        results.append((f"Hive {hive2.version}", kind, KINDS[kind].encoding, name, "equal", told))
    record_property(READ, results)


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
        monkeypatch.setattr("hive_bitmap.query.result_file.READER_LIMIT", 100)
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
        with pytest.raises(Unsupported, match=r"Hive may read .*x._COPYING_, which Spark does not; move it away"):
            hive_bitmap.write_offsets(spark, table, "k = 1", str(result))
    finally:
        spark.sql(f"DROP DATABASE {hive2_database} CASCADE")
