"""Test the local session: its settings, and the errors if it cannot start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark import java
from hive_bitmap.spark.session import default_warehouse, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIGURATION = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "HIVE_CONF_DIR", "SPARK_HOME", "SPARK_REMOTE")
HIVE_SITE = "<configuration><property><name>{}</name><value>{}</value></property></configuration>"


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CONFIGURATION:
        monkeypatch.delenv(name, raising=False)


def script(folder: Path, *lines: str) -> Path:
    "A `java` in `folder`/bin that prints `lines` to stderr."
    java_file = folder / "bin" / "java"
    java_file.parent.mkdir(parents=True)
    java_file.write_text("#!/bin/sh\n" + "".join(f"echo '{line}' >&2\n" for line in lines))
    java_file.chmod(0o755)
    return java_file


@pytest.mark.parametrize(
    ("first_line", "release"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ('openjdk version "21-ea" 2023-09-19', 21),
    ],
)
def test_java_release_is_parsed_from_its_output(tmp_path: Path, first_line: str, release: int) -> None:
    assert java.version(str(script(tmp_path, first_line))) == release


def test_an_old_java_is_named_with_its_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path, 'openjdk version "11.0.2" 2019-01-15')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(HiveBitmapError, match=r"needs Java 17 or newer, but .*bin/java is Java 11; install"):
        java.require()


def test_no_java_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HiveBitmapError, match="no java is on PATH; install Java 17"):
        java.require()


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(HiveBitmapError, match=f"JAVA_HOME={tmp_path} holds no bin/java"):
        java.require()


def test_a_java_that_fails_is_no_java(tmp_path: Path) -> None:
    with pytest.raises(HiveBitmapError, match="Unable to locate a Java Runtime"):
        java.version(str(script(tmp_path, "Unable to locate a Java Runtime.")))


def test_without_configuration_the_default_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_warehouse() == "warehouse"
    monkeypatch.setenv("HIVE_CONF_DIR", str(tmp_path))
    assert default_warehouse() == "warehouse"


@pytest.mark.parametrize("variable", ["SPARK_CONF_DIR", "HADOOP_CONF_DIR", "HIVE_CONF_DIR"])
def test_a_hive_site_that_names_a_metastore_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    (tmp_path / "hive-site.xml").write_text(HIVE_SITE.format("hive.metastore.uris", "thrift://nn:9083"))
    monkeypatch.setenv(variable, str(tmp_path))
    assert default_warehouse() is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# a comment\n\nspark.hadoop.hive.metastore.uris  thrift://nn:9083\n", None),
        ("spark.hadoop.hive.metastore.uris=thrift://nn:9083", None),
        ("#spark.hadoop.hive.metastore.uris thrift://nn:9083\nspark.master yarn\nspark.flag\n", "warehouse"),
    ],
)
def test_spark_defaults_are_read_as_spark_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: str | None
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(text)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert default_warehouse() == expected


def test_a_broken_hive_site_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hive-site.xml").write_text("<configuration>")
    monkeypatch.setenv("HIVE_CONF_DIR", str(tmp_path))
    with pytest.raises(HiveBitmapError, match=r"hive-site\.xml is not a Hadoop configuration file"):
        default_warehouse()


def test_the_active_session_is_used_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    spark.createDataFrame([], "a int")  # an operation on a session makes it PySpark's active one
    assert session(tmp_path / "other") is spark
    assert not (tmp_path / "other").exists()


def test_tables_and_metastore_lie_in_the_warehouse(spark: SparkSession, database: str) -> None:
    warehouse = Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:"))
    spark.sql("CREATE TABLE t (a INT) STORED AS PARQUET")
    spark.sql("INSERT INTO t VALUES (1), (2)")
    assert list((warehouse / f"{database}.db" / "t").glob("part-*"))
    assert (warehouse / ".metastore" / "derby").is_dir()
    assert (warehouse / ".metastore" / "derby.log").is_file()


def test_workers_run_this_interpreter(spark: SparkSession) -> None:
    def interpreter(batches):  # type: ignore[no-untyped-def]
        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable]})

    (row,) = spark.range(1).mapInArrow(interpreter, "python string").collect()
    assert os.path.realpath(row.python) == os.path.realpath(sys.executable)


@pytest.mark.servers
def test_a_warehouse_in_use_is_named(spark: SparkSession) -> None:
    warehouse = spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")
    code = "import sys\nfrom hive_bitmap.spark.session import session\nsession(sys.argv[1], master='local[1]')"
    other = subprocess.run([sys.executable, "-c", code, warehouse], capture_output=True, text=True, check=False)
    assert other.returncode == 1
    assert f"HiveBitmapError: the metastore of warehouse {warehouse} cannot be opened" in other.stderr


def test_no_configuration_and_no_warehouse_is_an_error() -> None:
    code = "from hive_bitmap.spark.session import session\nsession(None)"
    bare = {name: value for name, value in os.environ.items() if name not in CONFIGURATION}
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=bare)
    assert other.returncode == 1
    assert "HiveBitmapError: no existing configuration names a metastore" in other.stderr
