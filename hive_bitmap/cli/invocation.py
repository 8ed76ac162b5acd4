"""From the command line to a session, and from what goes wrong in it to one line."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TextIO

import click
from rich.console import Console
from rich.text import Text

from hive_bitmap.cli.stderr_filter import Sieve, quiet_pyspark
from hive_bitmap.errors import HiveBitmapError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from hive_bitmap.hiveserver.connection import Address, Server

OURS = "hive_bitmap.errors."
RAISED = re.compile(r"[A-Za-z_][\w.]*: ")  # how a task's traceback names what was raised
SERVED = "show, query --count, offsets, sql -e or -f, register, export-hive"
QUERY_PLAN = re.compile(r";\n[^\n]*\n\+- ")  # how Spark goes on to the plan of the query


@dataclass(frozen=True)
class Endpoint:
    """What the global options say: the warehouse folder, HiveServer2, Spark's master, each None where none was named.

    `conf` are settings of Spark by name.
    """

    warehouse: str | None
    address: Address | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)

    def server(self) -> AbstractContextManager[Server]:
        """A connection to HiveServer2 that ends with the block. Raises ServerError, and UsageError without address."""
        from hive_bitmap.hiveserver.connection import connected

        if self.address is None:
            raise click.UsageError("--hiveserver2 HOST:PORT must come before this command")
        return connected(self.address)

    @contextmanager
    def session(self) -> Iterator[SparkSession]:
        """The active session, else one that ends with the block; what Spark raises becomes HiveBitmapError.

        Raises UsageError where HiveServer2 is to be asked.
        """
        if self.address is not None:
            raise click.UsageError("this needs Spark; with --hiveserver2 go: " + SERVED)
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        active = SparkSession.getActiveSession()
        with quiet_pyspark(), nullcontext(active) if active is not None else self._started() as spark:
            try:
                yield spark
            except (PySparkException, Py4JError) as e:
                raise HiveBitmapError(one_line(e)) from e

    @contextmanager
    def _started(self) -> Iterator[SparkSession]:
        """A session of our own; what Java says while it is ended (jobs of a reader that left) is of no use."""
        from hive_bitmap.session import default_warehouse, session

        console, sieve = messages(), Sieve()
        warehouse = self.warehouse if self.warehouse is not None else default_warehouse()
        if warehouse is not None and not os.path.exists(os.path.join(warehouse, ".metastore")):
            console.print(Text(f"a new warehouse, without tables, is made in {os.path.abspath(warehouse)}", "dim"))
        status = console.status("[dim]starting Spark") if console.is_terminal else nullcontext()
        with status, sieve.over_stderr():
            spark = session(warehouse, master=self.master, conf=self.conf)
        try:
            yield spark
        finally:
            sieve.closed = True
            spark.stop()


def spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--master` and `--conf`, as spark-submit has them."""
    conf = click.option(
        "--conf", multiple=True, metavar="NAME=VALUE", help="A setting of Spark; may be given several times."
    )
    master = click.option(
        "--master",
        metavar="URL",
        help="Where Spark runs: local[4], spark://host:7077, yarn. Default: what your Spark configuration says; "
        "for a local warehouse, this machine.",
    )
    return master(conf(command))


def settings_of(conf: Sequence[str]) -> dict[str, str]:
    """The values of `--conf` by name. Raises UsageError.

    >>> settings_of(["spark.executor.memory=2g", "spark.a=b=c"])
    {'spark.executor.memory': '2g', 'spark.a': 'b=c'}
    """
    pairs = [one.partition("=") for one in conf]
    for name, equals, value in pairs:
        if not name.startswith("spark.") or not equals:
            raise click.UsageError(f"--conf {name}{equals}{value}: give a setting of Spark as spark.name=value")
    return {name: value for name, _, value in pairs}


def messages() -> Console:
    """The console on stderr: progress, warnings and errors."""
    return _console(sys.stderr)


@lru_cache(maxsize=1)
def _console(stream: TextIO) -> Console:
    return Console(file=stream, highlight=False)


def one_line(error: BaseException) -> str:
    """What an error says, in one line: of a failed task its own error, of Spark's pages the first paragraph.

    >>> one_line(ValueError("Job aborted\\n  Traceback ..\\nhive_bitmap.errors.FileChanged: a is gone\\n\\n at x"))
    'a is gone'
    >>> one_line(ValueError("[A] no column.\\nGive one; line 1 pos 0;\\n'Filter ('x = 1)\\n+- Relation t"))
    '[A] no column. Give one; line 1 pos 0'
    """
    text = str(error).strip()
    raised = [line for line in text.splitlines() if RAISED.match(line)] if "Traceback" in text else []
    if raised:
        return raised[-1].removeprefix(OURS).partition(": ")[2] if raised[-1].startswith(OURS) else raised[-1]
    return " ".join(QUERY_PLAN.split(text.partition("\n\n")[0])[0].split()) or type(error).__name__
