"""Define the command `sql`, and its prompt for statements."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from hive_bitmap.cli import server
from hive_bitmap.cli.invocation import Endpoint, messages, one_line
from hive_bitmap.cli.output import LIMIT_HELP, format_option
from hive_bitmap.core.bitmaps import ENCODINGS
from hive_bitmap.core.explaining.measures import seconds
from hive_bitmap.core.grammar.script import Part, first_words, is_complete, split
from hive_bitmap.core.index.definition import COMPRESSIONS, TYPES
from hive_bitmap.errors import HiveBitmapError, InvalidStatement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


EXIT_WORDS = ("exit", "quit")
WORDS = (
    "ALTER AND AS BETWEEN BY CASCADE COMMENT CREATE DATABASE DEFERRED DESCRIBE DROP EXISTS EXPLAIN FORMATTED FROM "
    "GROUP IF IDXPROPERTIES IN INDEX INDEXES INSERT INTO IS JOIN LIKE LIMIT LOCATION NOT NULL ON OR ORDER PARTITION "
    "REBUILD REFRESH RENAME SELECT SET SHOW STORED TABLE TABLES TBLPROPERTIES TO UPDATE USE USING VALUES WHERE WITH"
)
WITHOUT_JOBS = {"SHOW", "DESCRIBE", "DESC", "USE"}  # first words of statements that run no jobs


def inputs(tables: Callable[[], Iterable[str]]) -> Iterator[list[Part]]:
    """Read inputs from a prompt, and yield the statements of each input.

    The inputs end with Ctrl-D or one of EXIT_WORDS. Ctrl-C discards the current input. `tables` returns the names of
    tables that Tab completes, and is called before each input.
    """
    session: PromptSession[str] = PromptSession(
        "hive-bitmap> ",
        multiline=Condition(lambda: is_unfinished(get_app().current_buffer.text)),
        prompt_continuation="           . ",
        history=_history(),
        complete_while_typing=False,
    )
    while True:
        try:
            text = session.prompt(completer=completer(tables()))
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if _is_exit(text):
            return
        try:
            yield split(text)
        except InvalidStatement as e:
            messages().print(one_line(e), style="red", markup=False, soft_wrap=True)


def state_folder() -> Path:
    """Return the folder for the user's state, such as the history.

    It is `hive-bitmap` in XDG_STATE_HOME (default: ~/.local/state), as the XDG Base Directory Specification says.
    """
    root = os.environ.get("XDG_STATE_HOME")
    return (Path(root) if root else Path.home() / ".local" / "state") / "hive-bitmap"


def is_unfinished(text: str) -> bool:
    """Return whether a statement has not ended, so that Enter begins another line."""
    return bool(text.strip()) and not is_complete(text) and not _is_exit(text)


def completer(tables: Iterable[str]) -> WordCompleter:
    """Return a completer of keywords, values of properties and these table names."""
    return WordCompleter([*WORDS.split(), *TYPES, *ENCODINGS, *COMPRESSIONS, *EXIT_WORDS, *tables], ignore_case=True)


def _is_exit(text: str) -> bool:
    return text.strip().rstrip(";").rstrip().lower() in EXIT_WORDS


def _history() -> History:
    """Return the history of statements typed at the prompt.

    All runs of the command share the history in a file. If this file cannot be written, the history is only in memory.
    """
    folder = state_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / "history").open("a"):
            return FileHistory(str(folder / "history"))
    except OSError:
        return InMemoryHistory()


@click.command()
@click.option("-e", "text", metavar="TEXT", help="Statements to run.")
@click.option(
    "-f",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with statements to run; - is the standard input.",
)
@click.option("--keep-going", is_flag=True, help="Continue after a statement that fails; the exit status is still 1.")
@click.option("--limit", type=click.IntRange(min=0), help=LIMIT_HELP)
@format_option
@click.pass_obj
def sql(
    endpoint: Endpoint, text: str | None, file: Path | None, keep_going: bool, limit: int | None, format_: str
) -> None:
    """Run SQL statements, separated by semicolons.

    Index statements and all statements of Spark are allowed. Without -e and -f, statements are read from a prompt, or
    from the standard input if it is not a terminal. A script ends at the first statement that fails.

    \b
    Example:
      hive-bitmap sql -e "CREATE INDEX dest ON TABLE flights (dest) AS 'BITMAP'; SHOW INDEX ON flights"
      hive-bitmap sql -f indexes.sql --keep-going
    """
    if text is not None and file is not None:
        raise click.UsageError("give -e or -f, not both")
    if text is None and file is None and sys.stdin.isatty() and endpoint.address is None:
        with endpoint.session() as spark:
            _run_interactively(spark, format_, limit)
        return
    parts = split(text if text is not None else _read(file))
    if not parts:
        return
    if endpoint.address is not None:
        server.run_script(endpoint, parts, keep_going, limit, format_)
        return
    jobs = not all(set(first_words(part.in_place, 1)) & WITHOUT_JOBS for part in parts)
    with endpoint.session(jobs=jobs) as spark:
        failed = _run_script(spark, parts, keep_going, format_, limit)
    if failed:
        raise click.exceptions.Exit(1)


def _read(file: Path | None) -> str:
    if file is None or str(file) == "-":
        return sys.stdin.read()
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as e:
        raise HiveBitmapError(f"{file} is not UTF-8 text: {e}") from e


def _run_script(spark: SparkSession, parts: list[Part], keep_going: bool, format_: str, limit: int | None) -> bool:
    """Run statements one after the other; return whether a statement failed.

    Raises HiveBitmapError at the first statement that fails; with `keep_going`, the error is printed instead. At most
    `limit` rows of a statement are printed; None stands for the default of `print_rows`.
    """
    failed = False
    for number, part in enumerate(parts, 1):
        reason = _run(spark, part, format_, limit)
        if reason is None:
            continue
        reason = f"statement {number} at line {part.line}: {reason}"
        if not keep_going:
            raise HiveBitmapError(reason)
        failed = True
        print(f"hive-bitmap: {reason}", file=sys.stderr)  # noqa: T201 - the error message of the statement
    return failed


def _run_interactively(spark: SparkSession, format_: str, limit: int | None) -> None:
    """Run statements as they are typed, until the input ends.

    An error or Ctrl-C ends only the current input. At most `limit` rows of a statement are printed; None stands for the
    default of `print_rows`.
    """

    for parts in inputs(lambda: [table.name for table in spark.catalog.listTables()]):
        for part in parts:
            started = time.monotonic()
            try:
                reason = _run(spark, part, format_, limit)
            except KeyboardInterrupt:
                reason = "interrupted"
            if reason is not None:
                messages().print(reason, style="red", markup=False, soft_wrap=True)
                break
            messages().print(f"[dim]{seconds(time.monotonic() - started)}")


def _run(spark: SparkSession, part: Part, format_: str, limit: int | None) -> str | None:
    """Run a statement and print its rows.

    Return the reason of a failure in one line, or None if the statement succeeded. At most `limit` rows are printed;
    None stands for the default of `print_rows`.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    import hive_bitmap
    from hive_bitmap.cli.output import print_rows

    try:
        frame = hive_bitmap.sql(spark, part.in_place)
        if frame.columns:
            names = unique_names(frame.columns)
            print_rows(format_, frame if names == frame.columns else frame.toDF(*names), limit)
        sys.stdout.flush()
    except (HiveBitmapError, PySparkException, Py4JError) as e:
        return one_line(e)
    return None


def unique_names(names: Sequence[str]) -> list[str]:
    """Make names unique by adding numbers; case does not matter, as in Spark.

    >>> unique_names(["a", "b", "A", "a"])
    ['a', 'b', 'A (2)', 'a (3)']
    """
    unique_so_far: list[str] = []
    taken: set[str] = set()
    for name in names:
        number = 1
        while (unique := name if number == 1 else f"{name} ({number})").lower() in taken:
            number += 1
        unique_so_far.append(unique)
        taken.add(unique.lower())
    return unique_so_far
