"""Put the tables and indexes of an earlier version where they were, and tell the metastore of a session of them.

Nothing of an index is changed but what no copy of a file can keep: the inode and its time of change by which a manifest
tells a local base file from another one. So `files.parquet` gets new ones, and a new checksum.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

import hive_bitmap
from tests.golden import make

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSIONS = sorted(path.name.removesuffix(".tar.gz") for path in make.FOLDER.glob("[0-9]*.tar.gz"))


@contextlib.contextmanager
def restored(spark: SparkSession, version: str) -> Iterator[Path]:
    """The tables of a version in the current database, and their folder; no other process has them meanwhile."""
    home, name = make.root(version), make.database(version)
    before = spark.catalog.currentDatabase()
    with open(f"{home}.lock", "a", opener=_no_link) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(home, ignore_errors=True)
        with tarfile.open(make.FOLDER / f"{version}.tar.gz") as packed:
            packed.extractall(home, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        for manifest in sorted(home.rglob("_manifest/files.parquet")):
            _tell_files_anew(manifest)
        spark.sql(f"CREATE DATABASE {name} LOCATION '{home}/{name}'")
        spark.catalog.setCurrentDatabase(name)
        try:
            for statement in json.loads((home / make.TABLES).read_text()):
                spark.sql(statement)
            hive_bitmap.clean(spark, take_over=True)  # the metastore that made them is gone
            yield home / name
        finally:
            spark.catalog.setCurrentDatabase(before)
            spark.sql(f"DROP DATABASE {name} CASCADE")
            shutil.rmtree(home)


def _no_link(path: str, flags: int) -> int:
    """Open a file in a folder that all may write to; raise OSError if somebody has put a link there."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _tell_files_anew(manifest: Path) -> None:
    """Have a manifest name the base files as they are on this disk."""
    table = pq.read_table(manifest)
    found = [Path(path.removeprefix("file:")).stat() for path in table["path"].to_pylist()]
    assert [one.st_size for one in found] == table["size"].to_pylist()
    tags = pa.array([f"{one.st_ino}-{one.st_ctime_ns}" for one in found], pa.string())
    times = pa.array([one.st_mtime_ns // 1_000_000 for one in found], pa.int64())
    for column, values in (("etag", tags), ("mtime_ms", times)):
        place = table.schema.get_field_index(column)
        table = table.set_column(place, table.schema.field(place), values)
    pq.write_table(table, manifest)
    sums = manifest.with_name("checksums")
    changed = {**json.loads(sums.read_text()), manifest.name: [zlib.crc32(manifest.read_bytes())]}
    sums.write_text(json.dumps(changed))
