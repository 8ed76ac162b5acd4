"""Typing statements: they may take several lines, up to the semicolon; Tab completes words and table names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from hive_bitmap.bitmaps import ENCODINGS
from hive_bitmap.cli.invocation import messages, one_line
from hive_bitmap.errors import InvalidStatement
from hive_bitmap.index.definition import COMPRESSIONS, TYPES
from hive_bitmap.sql.script import Part, is_complete, split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAVING = ("exit", "quit")
WORDS = (
    "ALTER AND AS BETWEEN BY CASCADE COMMENT CREATE DATABASE DEFERRED DESCRIBE DROP EXISTS EXPLAIN FORMATTED FROM "
    "GROUP IF IDXPROPERTIES IN INDEX INDEXES INSERT INTO IS JOIN LIKE LIMIT LOCATION NOT NULL ON OR ORDER PARTITION "
    "REBUILD RENAME SELECT SET SHOW STORED TABLE TABLES TBLPROPERTIES TO UPDATE USE USING VALUES WHERE WITH"
)


def inputs(spark: SparkSession) -> Iterator[list[Part]]:
    """The statements of each input, until Ctrl-D or a word of LEAVING; Ctrl-C discards what is being typed."""
    session: PromptSession[str] = PromptSession(
        "hive-bitmap> ",
        multiline=Condition(lambda: _goes_on(get_app().current_buffer.text)),
        prompt_continuation="           . ",
        history=_history(),
        complete_while_typing=False,
    )
    while True:
        try:
            text = session.prompt(completer=_completer(spark))
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if _leaves(text):
            return
        try:
            yield split(text)
        except InvalidStatement as e:
            messages().print(one_line(e), style="red", markup=False, soft_wrap=True)


def state_folder() -> Path:
    """Where the user's state is kept, as the XDG base directories have it."""
    root = os.environ.get("XDG_STATE_HOME")
    return (Path(root) if root else Path.home() / ".local" / "state") / "hive-bitmap"


def _leaves(text: str) -> bool:
    return text.strip().rstrip(";").rstrip().lower() in LEAVING


def _goes_on(text: str) -> bool:
    """Whether Enter begins another line: a statement is begun and not ended."""
    return bool(text.strip()) and not is_complete(text) and not _leaves(text)


def _history() -> History:
    """What was typed before; of this session only, where the user's folder cannot be written."""
    folder = state_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / "history").open("a"):
            return FileHistory(str(folder / "history"))
    except OSError:
        return InMemoryHistory()


def _completer(spark: SparkSession) -> WordCompleter:
    tables = [table.name for table in spark.catalog.listTables()]
    return WordCompleter([*WORDS.split(), *TYPES, *ENCODINGS, *COMPRESSIONS, *LEAVING, *tables], ignore_case=True)
