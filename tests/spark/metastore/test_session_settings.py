"""Blocks in which partition specs are taken verbatim change no settings that others see."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING

import pytest

from hive_bitmap.core.table_info import Column, Table
from hive_bitmap.spark.metastore import jvm_reader, jvm_settings, session_settings
from hive_bitmap.spark.metastore.metastore import METASTORES
from hive_bitmap.spark.metastore.session_settings import KEEP_CONSTANTS, SKIP_VALIDATION, verbatim_partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

THREADS = 4


def settings(spark: SparkSession) -> tuple[str | None, str | None]:
    return spark.conf.get(SKIP_VALIDATION, None), spark.conf.get(KEEP_CONSTANTS, None)


def in_threads(spark: SparkSession, barrier: Barrier) -> list[tuple[str | None, str | None]]:
    """Enter and leave blocks in threads, all of them inside at once; the settings of the session of each block."""

    def block(_: int) -> tuple[str | None, str | None]:
        with verbatim_partitions(spark) as verbatim:
            barrier.wait(60)
            found = settings(verbatim)
            barrier.wait(60)
        return found

    with ThreadPoolExecutor(THREADS) as pool:
        return [found for _ in range(3) for found in pool.map(block, range(THREADS))]


@pytest.mark.parametrize("classic", [True, False], ids=["classic", "as of a Connect client"])
def test_blocks_in_many_threads_leave_no_setting_behind(
    spark: SparkSession, classic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm_reader, "available", lambda session: classic)
    before, seen = settings(spark), []
    for kept in (None, "true"):
        if kept is not None:
            spark.conf.set(KEEP_CONSTANTS, kept)
        try:
            barrier = Barrier(THREADS, lambda: seen.append(spark.conf.get(SKIP_VALIDATION, None)))
            assert set(in_threads(spark, barrier)) == {("true", "false")}
            assert settings(spark)[1] == (before[1] if kept is None else kept)
        finally:
            spark.conf.unset(KEEP_CONSTANTS)
        assert settings(spark) == before
    assert set(seen) == ({before[0]} if classic else {"true"})


def test_partitions_are_read_verbatim(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE t (k INT) PARTITIONED BY (p INT) STORED AS PARQUET")
    with verbatim_partitions(spark) as verbatim:
        verbatim.sql("ALTER TABLE t ADD PARTITION (p='01') PARTITION (p='1')")
    table = Table(database=database, name="t", kind="MANAGED", partition_columns=(Column("p", "int"),))
    for one in METASTORES:
        assert sorted(partition.values for partition in one.partitions(spark, table)) == [("01",), ("1",)]


def test_what_a_program_sets_past_the_session_is_seen(spark: SparkSession) -> None:
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    before = session_settings.settings(spark)
    assert not set(before) & set(jvm_settings.OF_READERS)
    name = "mapreduce.input.fileinputformat.input.dir.recursive"
    for written in (name, "mapred.input.dir.recursive"):  # the second is what Hadoop called it before
        conf.set(written, "true")
        try:
            assert session_settings.settings(spark).items() >= {**before, name: "true"}.items()
        finally:
            conf.unset(name)
    assert session_settings.settings(spark) == before
