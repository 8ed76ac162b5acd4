"""S3: the server of moto, which keeps buckets in its memory, and the jars that Spark needs for s3a."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.integration.servers import jars, process
from tests.stores.servers.hdfs import VERSION

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
def serving(folder: Path) -> Iterator[int]:
    """Serve, until the block ends; yields the port of 127.0.0.1. Raises jars.Unavailable."""
    if importlib.util.find_spec("moto") is None:
        raise jars.Unavailable("moto is not installed: pip install 'moto[server]'")
    folder.mkdir(parents=True, exist_ok=True)
    port = process.free_port()
    code = "import sys; from moto.server import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "-H", "127.0.0.1", "-p", str(port)]
    with process.serving(command, folder, lambda: process.connect(port)):
        yield port


def make_bucket(port: int, name: str) -> None:
    """An empty bucket; moto asks nobody who he is."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{name}", method="PUT")
    request.add_header("Authorization", "AWS4-HMAC-SHA256 Credential=k/20260101/us-east-1/s3/aws4_request")
    urllib.request.urlopen(request, timeout=30).close()


def open_uploads(port: int, bucket: str) -> int:
    """How many multipart uploads are neither complete nor aborted."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{bucket}?uploads=")
    request.add_header("Authorization", "AWS4-HMAC-SHA256 Credential=k/20260101/us-east-1/s3/aws4_request")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return int(answer.read().count(b"<UploadId>"))
