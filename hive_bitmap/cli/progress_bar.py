"""Show the progress of a build: files, rows, bytes a second.

The progress is shown as a bar in a terminal, otherwise as lines of the log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hive_bitmap.cli.invocation import messages
from hive_bitmap.core.explaining.measures import size
from hive_bitmap.spark.building.progress import BuildProgress

log = logging.getLogger(__name__)
SECONDS_BETWEEN_LINES = 5.0  # in the log


@contextmanager
def build_bar(what: str) -> Iterator[Callable[[BuildProgress], None] | None]:
    """Yield a function that a build calls to report its progress.

    `what` describes the build; it stands before the bar and at the beginning of each logged line. If stderr is not a
    terminal, the function writes to the log. Yield None if the log does not show its lines, which have level INFO.
    """
    console = messages()
    if not console.is_terminal:
        yield _progress_logger(what) if log.isEnabledFor(logging.INFO) else None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("files  {task.fields[rows]:,} rows  {task.fields[speed]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None, rows=0, speed="")
        speed = _speed_formatter()

        def update(done: BuildProgress) -> None:
            bar.update(task, completed=done.files, total=done.files_total, rows=done.rows, speed=speed(done))

        yield update


def _progress_logger(what: str) -> Callable[[BuildProgress], None]:
    """Return a function that logs the progress of a build.

    Each line begins with `what`. The function logs at most one line every SECONDS_BETWEEN_LINES, and a line at the end
    of the build.
    """
    speed, before = _speed_formatter(), time.monotonic()

    def update(done: BuildProgress) -> None:
        nonlocal before
        if done.files < done.files_total and time.monotonic() - before < SECONDS_BETWEEN_LINES:
            return
        before = time.monotonic()
        log.info("%s: %s of %s files, %s rows, %s", what, done.files, done.files_total, f"{done.rows:,}", speed(done))

    return update


def _speed_formatter() -> Callable[[BuildProgress], str]:
    """Return a function that formats the average reading speed of a build.

    The function takes the progress of the build, and returns a text such as `12 MB/s`. The average is over the time
    since `_speed_formatter` was called.
    """
    started = time.monotonic()
    return lambda done: f"{size(int(done.bytes / max(time.monotonic() - started, 1e-3)))}/s"
