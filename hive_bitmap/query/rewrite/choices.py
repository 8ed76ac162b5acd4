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


@dataclass(frozen=True)
class Rewriting:
    """A query's text and the choices for its scans, in the order of the text; `why_not` if it was not looked into."""

    text: str
    choices: tuple[Choice, ...] = ()
    why_not: str = ""

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
        for number, choice in enumerate(self.replaced):
            pieces.append(braced(self.text[copied : choice.start] + choice.head))
            pieces.append(f"{{{_placeholder(number)}}}{braced(choice.tail)}")
            copied = choice.end
        return "".join([*pieces, braced(self.text[copied:])])

    @property
    def frames(self) -> dict[str, DataFrame]:
        """What the placeholders stand for."""
        return {_placeholder(n): choice.frame for n, choice in enumerate(self.replaced) if choice.frame is not None}


def braced(text: str) -> str:
    """Text that `spark.sql` with keyword arguments takes as it is."""
    return text.replace("{", "{{").replace("}", "}}")


def _placeholder(number: int) -> str:
    return f"hive_bitmap_scan_{number}"
