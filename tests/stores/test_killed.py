"""Writers that are killed, and two at once: an object is there whole or not at all, and nothing is left open."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

import hive_bitmap
from hive_bitmap.core import stores
from hive_bitmap.core.index.generation_names import EMPTY_FOLDER
from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark.registry import catalog
from tests.stores.conftest import BUCKET, S3, forget, reached
from tests.stores.servers.s3 import open_uploads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.stores
WRITING = """
import json, sys
from hive_bitmap.core import stores
from hive_bitmap.core.stores import options
settings, path = json.loads(sys.argv[1])
options.use(lambda: options.Options.of(settings))
with stores.open_output(path) as sink:
    for _ in range(80):
        sink.write(bytes(1 << 20))
    print("written", flush=True)
print("stored", flush=True)
"""


def test_a_killed_writer_leaves_no_object_and_no_upload(s3: S3) -> None:
    path = f"s3a://{BUCKET}/{uuid4().hex}/shard"
    s3.proxy.delay = 60.0  # the request is on its way when its sender dies
    try:
        given = json.dumps([s3.settings, path])
        writer = subprocess.Popen([sys.executable, "-c", WRITING, given], stdout=subprocess.PIPE, text=True)
        with writer:
            assert writer.stdout is not None and writer.stdout.readline() == "written\n"
            started = time.monotonic()
            while not any(path.endswith(request.target.rpartition("/")[2]) for request in s3.proxy.ours()):
                assert time.monotonic() - started < 30 and writer.poll() is None
                time.sleep(0.05)
            writer.kill()
    finally:
        s3.proxy.reset()
    with reached(s3.settings):
        assert not stores.exists(path)
    assert open_uploads(s3.port, BUCKET) == 0


@pytest.mark.parametrize("home", ["s3"], indirect=True)
def test_two_builders_at_once_publish_what_is_right(spark: SparkSession, home: str, s3: S3) -> None:
    spark.sql("CREATE TABLE t (k int, id bigint) STORED AS PARQUET")
    spark.sql("INSERT INTO t SELECT CAST(id % 5 AS int), id FROM range(0, 1000, 1, 2)")
    hive_bitmap.build(spark, "t", ["k"], name="i")
    spark.sql("INSERT INTO t SELECT 7, id FROM range(10)")

    def rebuild(full: bool) -> str:
        try:
            hive_bitmap.rebuild(spark, "t", full=full)
        except HiveBitmapError as e:  # which is told that another one was at it
            return str(e)
        return ""

    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(rebuild, [True, False]))
    assert "" in said, said
    forget()
    assert hive_bitmap.plan(spark, "t", "k = 7", count=True).rows_selected == 10
    assert (hive_bitmap.count(spark, "t", "k = 7"), hive_bitmap.count(spark, "t", "k = 3")) == (10, 200)
    assert not [problem for report in hive_bitmap.verify(spark, "t") for problem in report.problems]
    hive_bitmap.clean(spark, "t", grace_seconds=0)
    hive_bitmap.clean(spark, "t", grace_seconds=0)
    assert hive_bitmap.count(spark, "t", "k = 7") == 10
    [index] = catalog.table_and_indexes(spark, "t")[1]
    segments = [folder.rpartition("/")[2] for folder in catalog.segments(spark, index)]
    assert stores.listing(index.definition.root).folders == sorted([EMPTY_FOLDER, *segments])
    assert open_uploads(s3.port, BUCKET) == 0
