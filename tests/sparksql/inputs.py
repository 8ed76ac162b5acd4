"""Spark's own SQL test inputs, parsed as its SQLQueryTestHelper does: statements, settings and their alternatives.

They lie in the `tests` jar of spark-sql, which is fetched once. The version is the same for every PySpark, the newest
that is published: a text is a text, and what the Spark of the day refuses of it is counted.
"""

from __future__ import annotations

import random
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.servers import jars

COORDINATE = "org.apache.spark:spark-sql_2.13:jar:tests:4.2.0"
INPUTS = "sql-tests/inputs/"
_END = re.compile(r"(?<=[^\\]);")
_START, _STOP = "--QUERY-DELIMITER-START", "--QUERY-DELIMITER-END"


@dataclass(frozen=True)
class Input:
    """A file: its name below `inputs`, settings, groups of alternative settings, and statements."""

    name: str
    settings: dict[str, str]
    dimensions: list[list[dict[str, str]]]
    statements: list[str]

    def drawn(self, rng: random.Random) -> dict[str, str]:
        """The settings, with one alternative of each group."""
        found = dict(self.settings)
        for alternatives in self.dimensions:
            found |= rng.choice(alternatives)
        return found


def archive() -> Path:
    """The jar; raises `jars.Unavailable` where it cannot be fetched."""
    [path] = jars.resolve("sparksql", [COORDINATE]).iterdir()
    return path


def names(jar: Path) -> list[str]:
    """The names of all files of statements, sorted; without those of scripts, which are one statement of many."""
    with zipfile.ZipFile(jar) as entries:
        found = (name.removeprefix(INPUTS) for name in entries.namelist() if name.startswith(INPUTS))
        return sorted(name for name in found if name.endswith(".sql") and not name.startswith("scripting/"))


def read(jar: Path, name: str) -> Input:
    """Parse a file of the jar."""
    return parse(name, lambda other: text_of(jar, INPUTS + other))


def text_of(jar: Path, entry: str) -> str:
    """A text in the jar."""
    with zipfile.ZipFile(jar) as entries:
        return entries.read(entry).decode()


def parse(name: str, text: Callable[[str], str]) -> Input:
    r"""Parse a file, and those that it imports; `text` has the text of a file by its name.

    >>> files = {"a.sql": "--SET a = 1, b=2\n--IMPORT b.sql\nSELECT '\\;'\n;\n-- end", "b.sql": "SELECT 1;"}
    >>> parse("a.sql", files.__getitem__)
    Input(name='a.sql', settings={'a': '1', 'b': '2'}, dimensions=[], statements=['SELECT 1', "SELECT '\\;'"])
    """
    comments, code = _divided(text(name))
    for comment in comments:
        if comment.startswith("--IMPORT "):
            code = [*_divided(text(comment.removeprefix("--IMPORT ").strip()))[1], *code]
    settings = [_settings(line.removeprefix("--SET ")) for line in comments if line.startswith("--SET ")]
    statements = [_without_comments(statement) for statement in _statements(code)]
    merged = {key: value for group in settings for key, value in group.items()}
    return Input(name, merged, _dimensions(comments), [statement for statement in statements if statement])


def _divided(text: str) -> tuple[list[str], list[str]]:
    """The lines that are comments, and the others."""
    comments: list[str] = []
    code: list[str] = []
    for line in text.split("\n"):
        is_comment = line.strip().startswith("--") and not line.strip().startswith("--QUERY-DELIMITER")
        (comments if is_comment else code).append(line)
    return comments, code


def _dimensions(comments: Sequence[str]) -> list[list[dict[str, str]]]:
    groups: dict[str, list[dict[str, str]]] = {}
    for line in comments:
        if line.startswith("--CONFIG_DIM"):
            word, _, rest = line.partition(" ")
            groups.setdefault(word, []).append(_settings(rest))
    return list(groups.values())


def _settings(text: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in text.split(","))
    return {key.strip(): value.strip() for key, _, value in pairs}


def _statements(code: Sequence[str]) -> Iterator[str]:
    """Cut at each `;` that no backslash stands before, save between the lines that delimit one statement."""
    lines: list[str] = []
    for line in [*code, _START]:
        if line.strip().startswith(_START):
            yield from _END.split("\n".join(lines))
            lines = []
        elif line.strip().startswith(_STOP):
            yield "\n".join(lines).removesuffix(";")
            lines = []
        else:
            lines.append(line)


def _without_comments(statement: str) -> str:
    return "\n".join(line for line in statement.strip().split("\n") if not line.startswith("--")).strip()
