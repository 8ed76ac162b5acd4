"""Run the command line `hive-bitmap`.

Results go to stdout, everything else to stderr. The exit status is 0 for success, 1 for failure, 2 for wrong usage, 130
after Ctrl-C, and 141 if the reader of stdout has closed its pipe.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
from click.shell_completion import shell_complete
from rich.text import Text

from hive_bitmap import __version__
from hive_bitmap.cli.advice import advise
from hive_bitmap.cli.checks import estimate, verify
from hive_bitmap.cli.doctor import doctor
from hive_bitmap.cli.indexes import create, rebuild
from hive_bitmap.cli.invocation import Config, Endpoint, messages, one_line, read_config, settings_of, spark_options
from hive_bitmap.cli.other_engines import export_hive, jar
from hive_bitmap.cli.queries import explain, offsets, query
from hive_bitmap.cli.refresh_command import refresh
from hive_bitmap.cli.server import address_of, register, server_options
from hive_bitmap.cli.sql_command import sql
from hive_bitmap.cli.upkeep import attach, clean, drop, rename, set_, show
from hive_bitmap.errors import HiveBitmapError

INTERRUPTED, BROKEN_PIPE = 130, 141  # as in shells: 128 plus the number of the signal, SIGINT or SIGPIPE
COMPLETION = "_HIVE_BITMAP_COMPLETE"  # the variable by which shells ask for completions, and for completion scripts
LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--warehouse",
    metavar="DIR",
    help="Folder of a local warehouse, created if missing; Spark and its metastore then run in this process. "
    "Default: the metastore in your Spark or Hive configuration, or else ./warehouse.",
)
@spark_options
@server_options
@click.option("-v", "--verbose", count=True, help="Log progress to stderr; -vv logs more.")
@click.option("-q", "--quiet", is_flag=True, help="Print results and errors only: no progress, hints or warnings.")
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.pass_context
def command(
    context: click.Context,
    /,
    warehouse: str | None,
    master: str | None,
    conf: Sequence[str],
    verbose: int,
    quiet: bool,
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
        raise click.UsageError("--master and --conf configure Spark, which --hiveserver2 does not use: leave them out")
    config = Config() if address is not None else read_config()
    folder = config.warehouse if warehouse is None else warehouse
    if folder is not None and not folder.strip():
        raise click.UsageError("the name of the warehouse is empty: give its folder (is a shell variable unset?)")
    context.obj = Endpoint(
        folder,
        address,
        config.master if master is None else master,
        {**config.conf, **settings_of(conf)},
    )
    messages().quiet = quiet
    context.call_on_close(lambda: setattr(messages(), "quiet", False))
    level = logging.ERROR if quiet else LEVELS[min(verbose, len(LEVELS) - 1)]
    context.with_resource(_logging_to_stderr(level))


for _command in (
    create,
    rebuild,
    refresh,
    show,
    rename,
    attach,
    set_,
    drop,
    clean,
    sql,
    query,
    explain,
    offsets,
    estimate,
    advise,
    verify,
    register,
    export_hive,
    jar,
    doctor,
):
    command.add_command(_command)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status.

    `argv` holds the arguments without the program's name. The default is `sys.argv[1:]`.
    """
    if instruction := os.environ.get(COMPLETION):
        return shell_complete(command, {}, "hive-bitmap", COMPLETION, instruction)
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        for argument in arguments:
            _require_text(argument)
        with command.make_context("hive-bitmap", arguments) as context:
            command.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as e:
        return e.exit_code
    except click.ClickException as e:
        e.show()
        return e.exit_code
    except (KeyboardInterrupt, click.Abort):
        logging.getLogger().addHandler(logging.NullHandler())  # discards what py4j logs while the process ends
        return _failed("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # Python flushes stdout again when it ends, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except (HiveBitmapError, OSError) as e:
        return _failed(one_line(e), 1)
    return 0


def _require_text(argument: str) -> None:
    try:
        argument.encode()
    except UnicodeEncodeError as e:
        raise click.UsageError(f"{argument!r} is not valid UTF-8: set the locale of this shell to UTF-8") from e


def _failed(reason: str, status: int) -> int:
    print(f"hive-bitmap: {reason}", file=sys.stderr)  # noqa: T201 - the error message of the command
    return status


@contextmanager
def _logging_to_stderr(level: int) -> Iterator[None]:
    """Log to stderr inside the `with` block.

    This package logs messages of `level` and above, one line a message. Other packages log warnings and errors.
    """
    logger, handler, other_packages = logging.getLogger("hive_bitmap"), _ConsoleHandler(), logging.StreamHandler()
    previous_level = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    other_packages.setLevel(logging.WARNING)
    other_packages.addFilter(_is_foreign_record)
    logging.getLogger().addHandler(other_packages)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(other_packages)
        logger.removeHandler(handler)
        logger.setLevel(previous_level)


def _is_foreign_record(record: logging.LogRecord) -> bool:
    """Return whether the handler for other packages logs a record.

    The handler does not log records of this package, which has its own handler. It does not log records of thrift,
    because PyHive also raises the errors that thrift logs. It does not log errors that Ctrl-C caused.
    """
    error = record.exc_info[1] if record.exc_info is not None else None
    return not (_is_caused_by_interrupt(error) or record.name.startswith(("hive_bitmap", "thrift")))


def _is_caused_by_interrupt(error: BaseException | None) -> bool:
    """Return whether Ctrl-C caused an error.

    The cause may be a KeyboardInterrupt, or a RuntimeError: PySpark's signal handler calls Java, which fails while
    another call is running.
    """
    while error is not None:
        if isinstance(error, KeyboardInterrupt) or (isinstance(error, RuntimeError) and "reentrant call" in str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


class _ConsoleHandler(logging.Handler):
    """A log handler that prints without breaking progress bars.

    It prints to the console that also draws the bars.
    """

    def emit(self, record: logging.LogRecord) -> None:
        line = f"{record.levelname.lower()}: {record.getMessage()}"
        messages().print(Text(line, "yellow" if record.levelno >= logging.WARNING else "dim"), soft_wrap=True)
