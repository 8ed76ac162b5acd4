"""The progress bar of a build, with files, rows and bytes per second; drawn on stderr if that is a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hive_bitmap.cli.invocation import messages
from hive_bitmap.core.explaining.measures import size
from hive_bitmap.spark.building.progress import BuildProgress


@contextmanager
def build_bar(what: str) -> Iterator[Callable[[BuildProgress], None] | None]:
    """Yield a function for a build to report its progress to; None if stderr is not a terminal."""
    console = messages()
    if not console.is_terminal:
        yield None
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
        started = time.monotonic()

        def update(progress: BuildProgress) -> None:
            speed = f"{size(int(progress.bytes / max(time.monotonic() - started, 1e-3)))}/s"
            bar.update(task, completed=progress.files, total=progress.files_total, rows=progress.rows, speed=speed)

        yield update
