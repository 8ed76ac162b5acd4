"""The prompt for SQL statements.

A statement may take several lines, and Tab completes keywords and table names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from hive_bitmap.cli.invocation import messages, one_line
from hive_bitmap.core.bitmaps import ENCODINGS
from hive_bitmap.core.index.definition import COMPRESSIONS, TYPES
from hive_bitmap.errors import InvalidStatement
from hive_bitmap.spark.sql.script import Part, is_complete, split

EXIT_WORDS = ("exit", "quit")
WORDS = (
    "ALTER AND AS BETWEEN BY CASCADE COMMENT CREATE DATABASE DEFERRED DESCRIBE DROP EXISTS EXPLAIN FORMATTED FROM "
    "GROUP IF IDXPROPERTIES IN INDEX INDEXES INSERT INTO IS JOIN LIKE LIMIT LOCATION NOT NULL ON OR ORDER PARTITION "
    "REBUILD REFRESH RENAME SELECT SET SHOW STORED TABLE TABLES TBLPROPERTIES TO UPDATE USE USING VALUES WHERE WITH"
)


def inputs(tables: Callable[[], Iterable[str]]) -> Iterator[list[Part]]:
    """Yield the statements of each input, until Ctrl-D or one of EXIT_WORDS.

    Ctrl-C discards the current input. `tables` returns the names of tables that Tab completes; it is called before each
    input.
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
    """Return the folder for the user's state, by the XDG Base Directory Specification."""
    root = os.environ.get("XDG_STATE_HOME")
    return (Path(root) if root else Path.home() / ".local" / "state") / "hive-bitmap"


def is_unfinished(text: str) -> bool:
    """Return whether a statement has begun, but not ended.

    Enter then begins another line.
    """
    return bool(text.strip()) and not is_complete(text) and not _is_exit(text)


def completer(tables: Iterable[str]) -> WordCompleter:
    """Return a completer of keywords, values of properties and these table names."""
    return WordCompleter([*WORDS.split(), *TYPES, *ENCODINGS, *COMPRESSIONS, *EXIT_WORDS, *tables], ignore_case=True)


def _is_exit(text: str) -> bool:
    return text.strip().rstrip(";").rstrip().lower() in EXIT_WORDS


def _history() -> History:
    """Return the history of all sessions.

    If the user's folder cannot be written, it is the history of this session only.
    """
    folder = state_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / "history").open("a"):
            return FileHistory(str(folder / "history"))
    except OSError:
        return InMemoryHistory()
