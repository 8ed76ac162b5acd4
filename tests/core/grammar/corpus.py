"""The statements of hive.sql and openlookeng.sql, each with the value, or the error, that the file gives for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hive_bitmap import errors
from hive_bitmap.core.grammar import script, statements

VALUES = {**vars(statements), "T": statements.TableName, "O": statements.Dialect.OPENLOOKENG}


def cases() -> Iterator[tuple[str, str, str]]:
    """Yield the file and line of each case, its statement, and what is expected of it."""
    for path in sorted(Path(__file__).parent.glob("*.sql")):
        lines: list[str] = []
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.startswith("--> "):
                yield f"{path.stem}:{number}", "\n".join(lines), line[4:]
                lines = []
            elif line.strip() and not line.startswith("---- "):
                lines.append(line)
        assert lines == [], f"{path} ends without an expectation"


def require(read: Callable[[], object], expected: str) -> None:
    """Require that `read` returns, or raises, what a case expects."""
    error = re.match(r"(\w+): (.*)", expected)
    if error is None:
        assert read() == eval(expected, VALUES)
        return
    with pytest.raises(getattr(errors, error[1])) as raised:
        read()
    said, told = error[2], str(raised.value)
    assert told.startswith(said[:-2]) if said.endswith("..") else told == said


def is_create(text: str) -> bool:
    """Whether a case is a CREATE INDEX, which `clauses` reads."""
    return script.first_words(text, 2) == ["CREATE", "INDEX"]
