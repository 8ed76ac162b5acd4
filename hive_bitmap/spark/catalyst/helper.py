"""Run the Python process of a server.

`Helper.java` starts the process as `python -m hive_bitmap.spark.catalyst.helper`. The process attaches to the JVM that
started it, and answers the optimizer rule for all sessions of this JVM. When the JVM exits, the standard input of the
process ends, and then the process ends.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from hive_bitmap.errors import HiveBitmapError


def main() -> int:
    """Answer the JVM until it exits; return the exit status."""
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
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    from hive_bitmap.spark import jvm_bridge
    from hive_bitmap.spark.catalyst.enabling import Answers

    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        raise HiveBitmapError("this is started by a server that has the extension (see `hive-bitmap jar --help`)")
    gateway: Any = launch_gateway()
    attachment = gateway.entry_point  # Helper.Attachment in Java
    context = attachment.context()
    if _minor(context.version()) != _minor(__version__):
        raise HiveBitmapError(
            f"the server is Spark {context.version()} and {sys.executable} has pyspark {__version__}: install "
            f"pyspark=={context.version()} there"
        )
    spark_context = SparkContext(gateway=gateway, jsc=context, conf=SparkConf(_jconf=context.getConf()))
    # PySpark makes the first session of a process the default session of the JVM, so use the server's own session
    jvm_bridge.open_port(SparkSession(spark_context))
    attachment.attach(Answers(spark_context))


def _minor(version: str) -> str:
    """Return the feature release of a version of Spark.

    >>> _minor("4.3.0")
    '4.3'
    """
    return ".".join(version.split(".")[:2])


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # do not wait for py4j's threads, whose JVM is gone
