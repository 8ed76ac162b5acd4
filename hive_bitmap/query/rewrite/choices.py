"""What becomes of the scans of a query: the text with placeholders, and the rows that these stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_bitmap.query.planner import Plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Choice:
    """What became of the scan of a table: its plan, and the rows to put in its place, None if it stays.

    `start` and `end` are the offsets of what is replaced in the text, by a placeholder between `head` and `tail`: the
    table's name, or, where the index alone answers, a block. `alias` is what the block calls the table, `seconds` is
    what planning took, and `why_not` tells why a plan that would pay is not followed. `lists` tell which columns had
    to have one of how many keys of another table, whose rows were `read_first`. `result` is the analysed query,
    where the choice is all of it.
    """

    plan: Plan
    start: int
    end: int
    head: str
    tail: str
    seconds: float
    frame: DataFrame | None = None
    alias: str = ""
    why_not: str = ""
    lists: tuple[str, ...] = ()
    read_first: bool = False
    result: DataFrame | None = None
    view: str = ""


@dataclass(frozen=True)
class Fold:
    """What stands between two offsets of an expanded text, to be a name again."""

    start: int
    end: int
    name: str


@dataclass(frozen=True)
class Rewriting:
    """A query's text and the choices for its scans, in the order of the text; `why_not` if it was not looked into.

    Choices and `folds` are about the `expanded` text: the same, or with the queries of views in place of their names.
    Those of `folds` change nothing, so their names come back.
    """

    text: str
    choices: tuple[Choice, ...] = ()
    why_not: str = ""
    expanded: str = ""
    folds: tuple[Fold, ...] = ()

    @property
    def replaced(self) -> list[Choice]:
        """The choices that change the query."""
        return [choice for choice in self.choices if choice.frame is not None]

    @property
    def result(self) -> DataFrame | None:
        """The query, if it was analysed already."""
        return self.choices[0].result if len(self.choices) == 1 else None

    @property
    def template(self) -> str:
        """The text with placeholders, its own braces doubled, as `spark.sql` takes it with keyword arguments."""
        pieces, copied = [], 0
        edits = [(fold.start, fold.end, braced(fold.name)) for fold in self.folds]
        for number, choice in enumerate(self.replaced):
            put = f"{braced(choice.head)}{{{_placeholder(number)}}}{braced(choice.tail)}"
            edits.append((choice.start, choice.end, put))
        for start, end, put in sorted(edits):
            pieces += [braced(self.expanded[copied:start]), put]
            copied = end
        return "".join([*pieces, braced(self.expanded[copied:])])

    @property
    def frames(self) -> dict[str, DataFrame]:
        """What the placeholders stand for."""
        return {_placeholder(n): choice.frame for n, choice in enumerate(self.replaced) if choice.frame is not None}


def braced(text: str) -> str:
    """Text that `spark.sql` with keyword arguments takes as it is."""
    return text.replace("{", "{{").replace("}", "}}")


def _placeholder(number: int) -> str:
    return f"hive_bitmap_scan_{number}"
