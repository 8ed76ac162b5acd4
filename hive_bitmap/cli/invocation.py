"""Define what all commands share.

All commands share the code for the session or server, the configuration file, options, and messages on stderr.
"""

from __future__ import annotations

import configparser
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click
from rich.console import Console
from rich.text import Text

from hive_bitmap.cli.stderr_filter import StderrFilter, quiet_pyspark
from hive_bitmap.errors import HiveBitmapError, suggestion

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from hive_bitmap.hive.hiveserver.connection import Address, Server


CONFIG_VARIABLE = "HIVE_BITMAP_CONFIG"
_PROGRAM, _CONF = "hive-bitmap", "conf"
_KEYS = ("warehouse", "master")
OUR_ERRORS = "hive_bitmap.errors."
EXCEPTION_LINE = re.compile(r"[A-Za-z_][\w.]*: ")  # the exception in the traceback of a task
WITHOUT_SPARK = "show, query --count, offsets, sql -e or -f, register, export-hive"
QUERY_PLAN = re.compile(r";\n[^\n]*\n\+- ")  # where the plan begins that Spark appends to some messages


@dataclass(frozen=True)
class Config:
    """The values in the configuration file; None for a missing value.

    `conf` maps the names of Spark settings to their values.
    """

    warehouse: str | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


def read_config() -> Config:
    """Read the configuration file.

    HIVE_BITMAP_CONFIG names the file; by default it is `hive-bitmap/config` in the user's configuration folder
    (XDG_CONFIG_HOME, else ~/.config). Without a file, the configuration is empty. Raise UsageError if
    HIVE_BITMAP_CONFIG names a missing file, and for unknown sections, keys and settings.
    """
    named = os.environ.get(CONFIG_VARIABLE)
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    path = Path(named) if named else Path(home) / "hive-bitmap" / "config"
    if not path.is_file():
        if named:
            raise click.UsageError(f"{CONFIG_VARIABLE} names {path}, which is not a file: correct or unset it")
        return Config()
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names of Spark settings have capital letters
    try:
        parser.read_string(path.read_text(encoding="utf-8"), str(path))
    except (configparser.Error, UnicodeDecodeError) as e:
        raise click.UsageError(f"{path} cannot be read: {' '.join(str(e).split())}") from e
    return _config(path, parser)


def _config(path: Path, parser: configparser.ConfigParser) -> Config:
    for section in parser.sections():
        if section not in (_PROGRAM, _CONF):
            hint = suggestion(section, (_PROGRAM, _CONF))
            raise click.UsageError(f"{path} has section [{section}]; known: [{_PROGRAM}], [{_CONF}]{hint}")
    values = dict(parser[_PROGRAM]) if parser.has_section(_PROGRAM) else {}
    for key in values:
        if key not in _KEYS:
            raise click.UsageError(
                f"{path} has {key} in [{_PROGRAM}]; known: {', '.join(_KEYS)}{suggestion(key, _KEYS)}"
            )
    conf = dict(parser[_CONF]) if parser.has_section(_CONF) else {}
    for name in conf:
        if not name.startswith("spark."):
            raise click.UsageError(f"{path} has {name} in [{_CONF}]: names of Spark settings begin with spark.")
    warehouse = values.get("warehouse")
    return Config(None if warehouse is None else os.path.expanduser(warehouse), values.get("master"), conf)


@dataclass(frozen=True)
class Endpoint:
    """The values of the global options; None for an option that is not given.

    `conf` maps the names of Spark settings to their values.
    """

    warehouse: str | None
    address: Address | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)

    def server(self) -> AbstractContextManager[Server]:
        """Return a connection to HiveServer2, to be used as a context manager.

        Raises ServerError, and UsageError without an address.
        """
        from hive_bitmap.hive.hiveserver.connection import connected

        if self.address is None:
            raise click.UsageError("--hiveserver2 HOST:PORT must come before this command")
        return connected(self.address)

    @contextmanager
    def session(self, *, jobs: bool = True) -> Iterator[SparkSession]:
        """Yield the active session, or start one that ends with the `with` block.

        `jobs` says whether the block runs many Spark jobs. Without many jobs, a new session has a JVM with only the
        quick compiler, because little Java code runs often enough to be worth optimizing. Errors of Spark within the
        block become HiveBitmapError. Raises UsageError if --hiveserver2 was given.
        """
        if self.address is not None:
            raise click.UsageError("this command needs Spark; with --hiveserver2 use: " + WITHOUT_SPARK)
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        active = SparkSession.getActiveSession()
        with quiet_pyspark(), nullcontext(active) if active is not None else self._started(jobs) as spark:
            try:
                yield spark
            except (PySparkException, Py4JError) as e:
                raise HiveBitmapError(one_line(e)) from e

    @contextmanager
    def _started(self, jobs: bool) -> Iterator[SparkSession]:
        """Start a session, and stop it at the end of the `with` block.

        `jobs` says whether the block runs many Spark jobs. If the block ends without an error, this function waits, for
        a limited time, until indexes with auto_refresh are refreshed after the writes of the session. Java's output
        while the session stops is discarded. Afterwards a class archive is made in the background, so that later
        commands start sooner (`archive_making`).
        """
        from hive_bitmap.spark import archive_making, java
        from hive_bitmap.spark.catalyst.enabling import wait_at_end
        from hive_bitmap.spark.session import default_warehouse, session

        console = messages()
        stderr_filter = StderrFilter(quiet=console.quiet)
        warehouse = self.warehouse if self.warehouse is not None else default_warehouse()
        if warehouse is not None and not os.path.exists(os.path.join(warehouse, ".metastore")):
            console.print(Text(f"creating a new, empty warehouse in {os.path.abspath(warehouse)}", "dim"))
        status = console.status("[dim]starting Spark") if console.is_terminal else nullcontext()
        with status, stderr_filter.applied(), java.started_with(*(() if jobs else (java.QUICK_COMPILER,))):
            spark = session(warehouse, master=self.master, conf=self.conf)
        try:
            yield spark
            wait_at_end(spark)
        finally:
            stderr_filter.closed = True
            spark.stop()
            archive_making.make_in_background()


def spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options `--master` and `--conf`, which work as in spark-submit."""
    conf = click.option(
        "--conf", multiple=True, metavar="NAME=VALUE", help="Configuration property of Spark; may be repeated."
    )
    master = click.option(
        "--master",
        metavar="URL",
        help="Spark master, like local[4], spark://host:7077 or yarn. Default: the one in your Spark configuration, or "
        "this machine for a local warehouse.",
    )
    return master(conf(command))


def settings_of(conf: Sequence[str]) -> dict[str, str]:
    """Return the values of `--conf` by name.

    Raises UsageError for a text that does not have the form `spark.name=value`.

    >>> settings_of(["spark.executor.memory=2g", "spark.a=b=c"])
    {'spark.executor.memory': '2g', 'spark.a': 'b=c'}
    """
    pairs = [setting.partition("=") for setting in conf]
    for name, equals, value in pairs:
        if not name.startswith("spark.") or not equals:
            raise click.UsageError(f"--conf {name}{equals}{value}: give a Spark setting as spark.name=value")
    return {name: value for name, _, value in pairs}


def messages() -> Console:
    """Return the console on stderr, for progress, warnings and errors."""
    return _console(sys.stderr)


@lru_cache(maxsize=1)
def _console(stream: TextIO) -> Console:
    return Console(file=stream, highlight=False)


def one_line(error: BaseException) -> str:
    r"""Return the message of an error in one line.

    If the message has the traceback of a failed task, the result is the line with the task's exception, without the
    name of its class if the class is from `hive_bitmap.errors`. Any other message is cut after its first paragraph, and
    before the query plan that Spark appends to some messages. If nothing is left, the result is the name of the error's
    class.

    >>> one_line(ValueError("Job aborted\n  Traceback ..\nhive_bitmap.errors.FileChanged: a is gone\n\n at x"))
    'a is gone'
    >>> one_line(ValueError("[A] no column.\nGive one; line 1 pos 0;\n'Filter ('x = 1)\n+- Relation t"))
    '[A] no column. Give one; line 1 pos 0'
    """
    text = str(error).strip()
    raised = [line for line in text.splitlines() if EXCEPTION_LINE.match(line)] if "Traceback" in text else []
    if raised:
        return raised[-1].partition(": ")[2] if raised[-1].startswith(OUR_ERRORS) else raised[-1]
    return " ".join(QUERY_PLAN.split(text.partition("\n\n")[0])[0].split()) or type(error).__name__
