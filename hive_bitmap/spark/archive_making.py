"""Make the archive of classes (`class_archive`) in a separate background process.

The process starts Spark in a temporary warehouse and runs what commands run. When its JVM ends, the JVM writes the
loaded classes to the archive. A command cannot write the archive from its own JVM, because that JVM would keep the
warehouse locked while it writes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import hive_bitmap
from hive_bitmap.spark import class_archive, java
from hive_bitmap.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = 86_400
UNUSED_DAYS = 30  # an archive that is unused for longer probably belongs to a removed Java or Spark
_ELSEWHERE = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "HIVE_CONF_DIR", "PYSPARK_SUBMIT_ARGS")
_STATEMENTS = (
    "CREATE TABLE t USING parquet AS SELECT id AS a, cast(id % 7 AS string) AS b FROM range(1000)",
    "CREATE INDEX i ON TABLE t (a, b) AS 'BITMAP'",
    "SHOW INDEX ON t",
    "SELECT * FROM t WHERE a = 7 AND b = '0' ORDER BY a LIMIT 5",
    "SELECT b, count(*) FROM t WHERE a < 7 GROUP BY b",
)


def make_in_background() -> None:
    """Start the process that makes the archive.

    Do nothing if there is an archive, if none can be made (`class_archive.place`), or if an attempt began within the
    last day.
    """
    base = class_archive.place()
    if base is None or class_archive.find(base) is not None or not _begin(base):
        return
    environment = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    with suppress(OSError):  # no process can be started: a command tries again after a day
        subprocess.Popen(
            [sys.executable, "-m", __name__, str(base)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def _begin(base: Path) -> bool:
    """Begin an attempt to make the archive; return False if it must not begin.

    The attempt must not begin if another attempt began within the last day, or if the folder cannot be written.
    """
    note = base.with_suffix(".attempt")
    try:
        base.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if note.exists() and time.time() - note.stat().st_mtime > DAY:
            note.unlink()
        os.close(os.open(note, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        return False
    return True


def make(base: Path) -> None:
    """Make the archive at `base`, completely or not at all.

    Delete archives unused for UNUSED_DAYS.
    """
    part = base.with_suffix(f".{os.getpid()}")
    try:
        with TemporaryDirectory() as folder:
            options = (f'"-XX:ArchiveClassesAtExit={part}"', class_archive.QUIET, java.QUICK_COMPILER)
            with java.started_with(*options):
                spark = session(Path(folder) / "warehouse", master="local[1]", conf={"spark.driver.memory": "1g"})
            _work(spark)
            _end(spark)
        part.chmod(0o600)
        part.replace(class_archive.named(base, part.stat().st_size))
    finally:
        part.unlink(missing_ok=True)
    _delete_unused(base.parent)


def _work(spark: SparkSession) -> None:
    """Load the classes that commands need, by running similar statements and functions."""
    for statement in _STATEMENTS:
        hive_bitmap.sql(spark, statement).collect()
    hive_bitmap.explain("SELECT * FROM t WHERE a = 7", spark)
    hive_bitmap.scan(spark, "t", "a = 7").collect()
    hive_bitmap.count(spark, "t", "b = '1'")
    hive_bitmap.show(spark, "t")


def _end(spark: SparkSession) -> None:
    """Stop Spark, and wait until its JVM has written the archive and ended."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # PySpark's JVM ends with its standard input
    gateway.proc.wait()


def _delete_unused(folder: Path) -> None:
    for file in folder.glob("spark-*"):
        with suppress(OSError):  # another process has deleted it
            if time.time() - file.stat().st_atime > UNUSED_DAYS * DAY:
                file.unlink()


if __name__ == "__main__":
    os.nice(19)
    make(Path(sys.argv[1]))
