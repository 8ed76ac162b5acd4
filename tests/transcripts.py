"""Pages that show commands with what they print: the commands are run, and the page must show their very output.

A block of `python` or `console` is run in the order of the page, in one namespace, and a block without a language
right behind it is what it prints. Times, sizes, moments and names of files differ from run to run: each counts as
equal to any other, and lines that begin with such a name may come in any order. A line `..` of the page stands for any
lines. `python -m tests.transcripts PAGE` runs a page and prints what each block prints, for who writes one.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hive_bitmap.cli import main

REST, _FILE = "..", "FILE"  # what stands for any lines, and for the name of a file
_BLOCK = re.compile(r"^```(python|console)\n(.*?)^```\n(?:\n?```\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
# What differs from run to run, and what stands for it.
_VARYING = [
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "MOMENT"),
    (re.compile(r"\bpart-[\w.…-]+"), _FILE),
    (re.compile(r"\b\d+(?:\.\d+)? (?:m?s|B|[kMGT]B)\b"), "FIGURE"),
    (re.compile(r"-{2,}|─{2,}"), "--"),  # below the headings of a table, whose width those figures have
    (re.compile(r"\s+"), " "),
]


@dataclass(frozen=True)
class Step:
    """A block of a page: its language, its text, and what it prints, None if the page does not show that."""

    language: str
    text: str
    shown: str | None


def steps(page: str) -> list[Step]:
    """Return the steps of the text of a page."""
    return [Step(*found) for found in _BLOCK.findall(page.replace("\n```\n\n```\n", "\n```\n```\n"))]


def printed(step: Step, names: dict[str, Any]) -> str:
    """Run a step with these names, to which it may add some, and return what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        if step.language == "python":
            exec(compile(step.text, "page", "exec"), names)
        else:
            for line in step.text.splitlines():
                program, *arguments = shlex.split(line.removeprefix("$ "))
                assert line.startswith("$ ") and program == "hive-bitmap", line
                status = main(arguments)
                assert status == 0, f"{line} ended with status {status}"
    return out.getvalue()


def differences(shown: str, real: str) -> list[str]:
    """Return the lines that a page shows and that were not printed in this order; empty if it is right.

    >>> differences("took 3 ms\\n..\\nend\\n", "took 1.4 s\\nsome\\nlines\\nend\\n")
    []
    >>> differences("one\\nthree\\n", "one\\ntwo\\nthree\\n"), differences("one\\n..\\n", "two\\n")
    (['three'], ['one'])
    """
    wanted, left = _lines(shown), _lines(real)
    free = False  # whether any lines may come here
    for line in wanted:
        if line == REST:
            free = True
        elif free and line in left:
            left, free = left[left.index(line) + 1 :], False
        elif left and left[0] == line:
            left = left[1:]
        else:
            return [line]
    return [] if free or not left else [f"not shown: {left[0]}"]


def _lines(text: str) -> list[str]:
    lines = []
    for line in text.splitlines():
        for pattern, name in _VARYING:
            line = pattern.sub(name, line)
        if line.strip():
            lines.append(line.strip())
    groups = groupby(lines, key=lambda line: line.startswith(_FILE))  # the order of a listing is anybody's
    return [line for files, group in groups for line in (sorted(group) if files else group)]


@contextlib.contextmanager
def terminal(folder: Path) -> Iterator[None]:
    """What a reader has: a terminal of a hundred columns, in a folder of his own."""
    before, columns = Path.cwd(), os.environ.get("COLUMNS")
    os.chdir(folder)
    os.environ["COLUMNS"] = "100"
    try:
        yield
    finally:
        os.chdir(before)
        os.environ.pop("COLUMNS")
        os.environ.update({} if columns is None else {"COLUMNS": columns})


def play(page: Path, names: Mapping[str, Any]) -> None:
    """Run a page and print what each of its steps prints."""
    known = dict(names)
    for step in steps(page.read_text()):
        real = printed(step, known)
        sys.stdout.write(f"\n>>> {step.text}\n{real}")
        if step.shown is not None:
            sys.stdout.writelines(f"!!! {line}\n" for line in differences(step.shown, real))


if __name__ == "__main__":
    asked = Path(sys.argv[1]).absolute()
    with TemporaryDirectory() as place, terminal(Path(place)):
        play(asked, {})
