"""Nobody without the token calls the Python process, whoever opened py4j's port first; the JVM does."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.spark.catalyst.enabling import answers
from tests.asking import require_alike, used

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = "SELECT count(*) FROM fact WHERE k = 3"
NOBODY = 65534
# Calls the object of each number that py4j may have given to the one that answers.
STRANGER = """
import encodings.idna, os, socket  # the other user may not be able to read the modules of this Python
if os.getuid() == 0:
    os.setgid({nobody})
    os.setuid({nobody})
for number in range(8):
    with socket.create_connection(("127.0.0.1", {port}), 10) as caller:
        caller.sendall(b"c\\np%d\\n__setattr__\\nsserving\\nsbroken\\ne\\n" % number)
        try:
            print(os.getuid(), caller.recv(300))
        except ConnectionResetError:
            print(os.getuid(), b"")
"""


def port_of(spark: SparkSession) -> int:
    gateway: Any = spark.sparkContext._gateway
    return int(gateway._callback_server.port)


def send(port: int, *lines: str) -> bytes:
    """Send a command and return what comes back; nothing if the connection is closed."""
    with socket.create_connection(("127.0.0.1", port), 10) as caller:
        caller.sendall("".join(f"{line}\n" for line in lines).encode())
        try:
            return caller.recv(300)
        except ConnectionResetError:
            return b""


def test_another_user_of_the_machine_calls_nothing(tables: SparkSession) -> None:
    require_alike(tables, QUERY, "index only")
    before = answers(tables).serving
    code = STRANGER.format(nobody=NOBODY, port=port_of(tables))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    lines = done.stdout.split("\n")[:-1]
    assert len(lines) == 8 and all(line.endswith("b''") for line in lines), done.stdout
    assert os.getuid() or all(line.startswith(str(NOBODY)) for line in lines)
    assert answers(tables).serving is before
    require_alike(tables, QUERY, "index only")
    assert used(tables, QUERY, "index only") == [("fact", "answered")]


@pytest.mark.contract
@pytest.mark.parametrize("first", [("A", "no token", "e"), ("c", "p0", "apply", "e"), ("", "", ""), ("g", "p0", "e")])
def test_a_caller_without_the_token_is_not_served(tables: SparkSession, first: tuple[str, ...]) -> None:
    hive_bitmap.enable(tables)
    found = send(port_of(tables), *first, "c", "p0", "hashCode", "e")
    assert not found.startswith((b"!yv", b"!yi", b"!ys"))  # an error, or nothing
    require_alike(tables, QUERY, "index only")


@pytest.mark.servers
def test_a_port_that_pyspark_opened_before_takes_the_token_from_then_on(tmp_path: Path) -> None:
    """A process of its own: `foreachBatch` calls Python before, meanwhile and after, on the same port."""
    done = subprocess.run(
        [sys.executable, "-c", STREAMS, str(tmp_path)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.split() == ["open", "closed", "20", "40", "60", "answered"], done.stdout + done.stderr[-3000:]


STREAMS = """
import socket, sys, time
from pathlib import Path
from pyspark.sql import SparkSession
import hive_bitmap

folder = Path(sys.argv[1])
conf = {"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.ui.enabled": "false", "spark.driver.memory": "1g"}
conf["spark.hadoop.javax.jdo.option.ConnectionURL"] = f"jdbc:derby:;databaseName={folder}/derby;create=true"
conf["spark.hadoop.datanucleus.schema.autoCreateAll"] = "true"
conf["spark.hadoop.hive.metastore.schema.verification"] = "false"
conf["spark.driver.extraJavaOptions"] = f"-Dderby.stream.error.file={folder}/derby.log"
builder = SparkSession.builder.master("local[2]").config(map=conf).enableHiveSupport()
spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
seen = []
spark.range(10).write.parquet(str(folder / "in"), mode="append")

def stream(name):
    files = spark.readStream.schema("id long").parquet(str(folder / "in"))
    return files.writeStream.foreachBatch(lambda rows, number: seen.append(rows.count())).start(
        checkpointLocation=str(folder / name)
    )

def stranger():
    port = spark.sparkContext._gateway._callback_server.port
    with socket.create_connection(("127.0.0.1", port), 10) as caller:
        caller.sendall(b"c\\np0\\nhashCode\\ne\\n")
        try:
            return "open" if caller.recv(300) else "closed"
        except ConnectionResetError:
            return "closed"

first = stream("first")
first.processAllAvailable()
print(stranger())
spark.sql("CREATE TABLE t USING parquet AS SELECT id % 5 AS k FROM range(1000)")
hive_bitmap.enable(spark)
print(stranger())
second = stream("second")
second.processAllAvailable()
print(sum(seen))
spark.range(10).write.parquet(str(folder / "in"), mode="append")
first.processAllAvailable(), second.processAllAvailable()
print(sum(seen))
hive_bitmap.build(spark, "t", ["k"])
third = stream("third")
third.processAllAvailable()
print(sum(seen))
spark.conf.set("hive_bitmap.strategy", "index only")
spark.conf.set("hive_bitmap.planning_seconds", "60")
[relation] = hive_bitmap.explain("SELECT count(*) FROM t WHERE k = 3", spark).relations
assert spark.sql("SELECT count(*) FROM t WHERE k = 3").first()[0] == 200
print(relation.action)
"""
