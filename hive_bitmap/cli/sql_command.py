"""The command that takes SQL: a text, a script, or statements as they are typed."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hive_bitmap.cli import server
from hive_bitmap.cli.invocation import Endpoint, messages, one_line
from hive_bitmap.cli.output import format_option
from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.explaining.measures import seconds
from hive_bitmap.sql.script import Part, split

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@click.command()
@click.option("-e", "text", metavar="TEXT", help="Run these statements.")
@click.option(
    "-f",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Run the statements of a file; - is the standard input.",
)
@click.option("--keep-going", is_flag=True, help="Go on behind a statement that fails; the status is 1 all the same.")
@click.option(
    "--limit", type=click.IntRange(min=0), help="At most so many rows a statement; a table has 100 without it."
)
@format_option
@click.pass_obj
def sql(
    endpoint: Endpoint, text: str | None, file: Path | None, keep_going: bool, limit: int | None, format_: str
) -> None:
    """Run SQL statements, each ended by a semicolon: those on indexes, and any that Spark has.

    Without -e and -f statements are read from the terminal, or from the standard input where that is none. The first
    one that fails ends a script.

    \b
    Example:
      hive-bitmap sql -e "CREATE INDEX dest ON TABLE flights (dest) AS 'BITMAP'; SHOW INDEX ON flights"
      hive-bitmap sql -f indexes.sql --keep-going
    """
    if text is not None and file is not None:
        raise click.UsageError("-e goes with no -f")
    if text is None and file is None and sys.stdin.isatty() and endpoint.address is None:
        with endpoint.session() as spark:
            _converse(spark, format_, limit)
        return
    parts = split(text if text is not None else _read(file))
    if not parts:
        return
    if endpoint.address is not None:
        server.run_script(endpoint, parts, keep_going, limit, format_)
        return
    with endpoint.session() as spark:
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
    """Run statement after statement; whether one failed and the rest was run all the same."""
    failed = False
    for number, part in enumerate(parts, 1):
        reason = _run(spark, part, format_, limit)
        if reason is None:
            continue
        reason = f"statement {number} at line {part.line}: {reason}"
        if not keep_going:
            raise HiveBitmapError(reason)
        failed = True
        print(f"hive-bitmap: {reason}", file=sys.stderr)  # noqa: T201 - the one line that an error is told in
    return failed


def _converse(spark: SparkSession, format_: str, limit: int | None) -> None:
    """Run what is typed until the end of the input; an error or Ctrl-C ends a statement only."""
    from hive_bitmap.cli.terminal import inputs

    for parts in inputs(spark):
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
    """Run a statement and print its rows; in one line why it failed, None if it did not."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from hive_bitmap import sql as run
    from hive_bitmap.cli.row_output import print_rows

    try:
        frame = run(spark, part.in_place)
        if frame.columns:
            print_rows(format_, _with_names_of_their_own(frame), limit)
        sys.stdout.flush()
    except (HiveBitmapError, PySparkException, Py4JError) as e:
        return one_line(e)
    return None


def _with_names_of_their_own(frame: DataFrame) -> DataFrame:
    """The same rows; of columns that have one name, all but the first get a number."""
    names: list[str] = []
    for name in frame.columns:
        twin = 1
        while (own := name if twin == 1 else f"{name} ({twin})") in names:
            twin += 1
        names.append(own)
    return frame if names == frame.columns else frame.toDF(*names)
