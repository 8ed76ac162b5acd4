"""S3: servers of it, and the jars that Spark needs for s3a.

`moto`, of PyPI, keeps buckets in its memory and asks nobody who he is. `versitygw`, which Go compiles in some minutes,
keeps them in a folder and is strict: a request is refused unless its signature is right.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.servers import jars, process
from tests.stores.servers.hdfs import VERSION

MOTO, VERSITYGW = "moto", "versitygw"
STRICT = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
ACCESS, SECRET = "tests", "a-secret-of-tests"
# What hadoop-aws asks for, but for hadoop-common, which PySpark has.
CLIENT = [
    f"org.apache.hadoop:hadoop-aws:{VERSION}",
    "software.amazon.awssdk:bundle:2.35.4",
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
    "org.wildfly.openssl:wildfly-openssl:2.2.5.Final",
]


def client_jars() -> Path:
    """The folder of Spark's s3a client. Raises jars.Unavailable."""
    return jars.resolve("stores-s3", CLIENT)


@contextlib.contextmanager
def serving(folder: Path, server: str = MOTO) -> Iterator[int]:
    """Serve, until the block ends; yields the port of 127.0.0.1. Raises jars.Unavailable."""
    if importlib.util.find_spec("moto") is None:
        raise jars.Unavailable("moto is not installed: pip install 'moto[server]'")
    port = process.free_port()
    if server == VERSITYGW:
        buckets = folder / "buckets"
        buckets.mkdir(parents=True, exist_ok=True)
        keys = {"ROOT_ACCESS_KEY": ACCESS, "ROOT_SECRET_KEY": SECRET}
        command = [_strict_server(), "--port", f"127.0.0.1:{port}", "--region", "us-east-1", "posix", str(buckets)]
    else:
        folder.mkdir(parents=True, exist_ok=True)
        keys = {}
        code = "import sys; from moto.server import main; sys.exit(main(sys.argv[1:]))"
        command = [sys.executable, "-c", code, "-H", "127.0.0.1", "-p", str(port)]
    with process.serving(command, folder, lambda: process.connect(port), keys):
        yield port


def make_bucket(port: int, name: str) -> None:
    """An empty bucket."""
    _client(port).create_bucket(Bucket=name)


def open_uploads(port: int, bucket: str) -> int:
    """How many multipart uploads are neither complete nor aborted."""
    return len(_client(port).list_multipart_uploads(Bucket=bucket).get("Uploads", []))


def _client(port: int) -> Any:
    import boto3  # which moto needs

    session = boto3.session.Session(ACCESS, SECRET, region_name="us-east-1")
    return session.client("s3", endpoint_url=f"http://127.0.0.1:{port}")


def _strict_server() -> str:
    """The program, compiled at first need into the cache of the tests. Raises jars.Unavailable."""
    go = shutil.which("go")
    if go is None:
        raise jars.Unavailable(f"there is no Go to compile {STRICT}")
    folder = jars.cache() / STRICT.rpartition("/")[2].replace("@v", "-")
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / VERSITYGW).exists():
            into = {**os.environ, "GOBIN": str(folder)}
            made = subprocess.run([go, "install", STRICT], env=into, capture_output=True, text=True, check=False)
            if made.returncode:
                raise jars.Unavailable(f"{STRICT} cannot be compiled: {made.stderr.strip()[-300:]}")
    return str(folder / VERSITYGW)
