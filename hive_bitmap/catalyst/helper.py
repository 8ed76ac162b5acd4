"""The Python process of a server: `python -m hive_bitmap.catalyst.helper`, which `Helper.java` starts.

It attaches to the JVM that started it, answers the questions of all its sessions, and ends when its standard input
ends, as it does when the JVM is gone.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from hive_bitmap.errors import HiveBitmapError


def main() -> int:
    """Answer until the JVM is gone. Returns the exit status."""
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    try:
        _attach()
    except HiveBitmapError as e:
        print(e, file=sys.stderr)  # noqa: T201 - the one line that the server's log shows
        return 1
    sys.stdin.buffer.read()
    return 0


def _attach() -> None:
    from pyspark import SparkConf, SparkContext, __version__
    from pyspark.java_gateway import ensure_callback_server_started, launch_gateway
    from pyspark.sql import SparkSession

    from hive_bitmap.catalyst.enabling import Answers

    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        raise HiveBitmapError("this is started by a server that has the extension (see `hive-bitmap jar --help`)")
    gateway: Any = launch_gateway()
    started_by = gateway.entry_point
    context = started_by.context()
    if _minor(context.version()) != _minor(__version__):
        raise HiveBitmapError(
            f"the server is Spark {context.version()} and {sys.executable} has pyspark {__version__}: install "
            f"pyspark=={context.version()} there"
        )
    spark_context = SparkContext(gateway=gateway, jsc=context, conf=SparkConf(_jconf=context.getConf()))
    SparkSession(spark_context)  # the server's own: the first one that Python sees becomes the default of the JVM
    ensure_callback_server_started(gateway)
    started_by.attach(Answers(spark_context))


def _minor(version: str) -> str:
    """
    >>> _minor("4.3.0")
    '4.3'
    """
    return ".".join(version.split(".")[:2])


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # threads that talk to a JVM that is gone are not waited for
