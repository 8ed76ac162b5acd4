"""`hive-bitmap`: results go to stdout, all else to stderr; the exit status is 0, 1 (it failed) or 2 (wrong usage)."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
from rich.text import Text

from hive_bitmap import __version__
from hive_bitmap.cli.checks import estimate, verify
from hive_bitmap.cli.export_hive import export_hive
from hive_bitmap.cli.indexes import create, rebuild
from hive_bitmap.cli.invocation import Endpoint, messages, one_line, settings_of, spark_options
from hive_bitmap.cli.jar import jar
from hive_bitmap.cli.queries import explain, offsets, query
from hive_bitmap.cli.server import address_of, register, server_options
from hive_bitmap.cli.sql_command import sql
from hive_bitmap.cli.upkeep import clean, drop, rename, set_, show
from hive_bitmap.errors import HiveBitmapError

INTERRUPTED, BROKEN_PIPE = 130, 141  # 128 and the number of the signal, as shells have it
LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--warehouse",
    metavar="DIR",
    help="Folder of a local warehouse, made where there is none: Spark and its metastore run inside this process. "
    "Default: ./warehouse, or the metastore that your Spark or Hive configuration names.",
)
@spark_options
@server_options
@click.option("-v", "--verbose", count=True, help="Tell on stderr what is done; -vv tells more.")
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.pass_context
def command(
    context: click.Context,
    /,
    warehouse: str | None,
    master: str | None,
    conf: Sequence[str],
    verbose: int,
    **server: Any,
) -> None:
    """Bitmap indexes for Hive and Spark tables.

    \b
    Example:
      hive-bitmap create flights carrier origin
      hive-bitmap query flights "carrier = 'UA' AND origin = 'JFK'" --count
    """
    address = address_of(**server)
    if address is not None and (master or conf):
        raise click.UsageError("--master and --conf are for Spark, which does nothing where --hiveserver2 is given")
    context.obj = Endpoint(warehouse, address, master, settings_of(conf))
    context.with_resource(_told(LEVELS[min(verbose, len(LEVELS) - 1)]))


for _command in (
    create,
    rebuild,
    show,
    rename,
    set_,
    drop,
    clean,
    sql,
    query,
    explain,
    offsets,
    estimate,
    verify,
    register,
    export_hive,
    jar,
):
    command.add_command(_command)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (without the program's name); returns the exit status and raises nothing."""
    try:
        with command.make_context("hive-bitmap", list(sys.argv[1:] if argv is None else argv)) as context:
            command.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as e:
        return e.exit_code
    except click.ClickException as e:
        e.show()
        return e.exit_code
    except (KeyboardInterrupt, click.Abort):
        logging.getLogger().addHandler(logging.NullHandler())  # what py4j says while all ends goes nowhere
        return _failed("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # What is left to write would fail again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except (HiveBitmapError, OSError) as e:
        return _failed(one_line(e), 1)
    return 0


def _failed(reason: str, status: int) -> int:
    print(f"hive-bitmap: {reason}", file=sys.stderr)  # noqa: T201 - the one line that an error is told in
    return status


@contextmanager
def _told(level: int) -> Iterator[None]:
    """The package's log on stderr, a line a message; of others warnings, but for what py4j says of an interrupt."""
    logger, handler, others = logging.getLogger("hive_bitmap"), _Messages(), logging.StreamHandler()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    others.setLevel(logging.WARNING)
    others.addFilter(_is_of_others)
    logging.getLogger().addHandler(others)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(others)
        logger.removeHandler(handler)
        logger.setLevel(before)


def _is_of_others(record: logging.LogRecord) -> bool:
    """Whether nobody else tells it: thrift logs what PyHive then raises."""
    error = record.exc_info[1] if record.exc_info is not None else None
    return not (_is_of_interrupt(error) or record.name.startswith(("hive_bitmap", "thrift")))


def _is_of_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error: PySpark's handler talks to Java, in the middle of what is being said there."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt) or (isinstance(error, RuntimeError) and "reentrant call" in str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


class _Messages(logging.Handler):
    """Prints through the console of the progress bars, so that they stay whole."""

    def emit(self, record: logging.LogRecord) -> None:
        line = f"{record.levelname.lower()}: {record.getMessage()}"
        messages().print(Text(line, "yellow" if record.levelno >= logging.WARNING else "dim"), soft_wrap=True)
