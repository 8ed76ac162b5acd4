"""The ways of answering a query of an indexed table."""

from __future__ import annotations

from enum import Enum

from hive_bitmap.errors import NotFound


class Strategy(str, Enum):
    """How a query is answered.

    Each is equal to its name in settings, EXPLAIN and JSON, such as "full scan".
    """

    INDEX_ONLY = "index only"
    ROWS = "rows"
    BLOCKS = "blocks"
    FILES = "files"
    FULL_SCAN = "full scan"

    __str__ = str.__str__

    @classmethod
    def chosen(cls, name: str | None) -> Strategy | None:
        """Return the strategy of this name.

        None stands for the choice of the planner. Raises NotFound.
        """
        if name is not None and name not in STRATEGIES:
            raise NotFound.of("strategy", name, STRATEGIES)
        return None if name is None else cls(name)

    @property
    def reads_selected(self) -> bool:
        """Whether only what the index selected is read of the table."""
        return self in (Strategy.ROWS, Strategy.BLOCKS, Strategy.FILES)

    @property
    def is_by_reader(self) -> bool:
        """Whether Spark's own reader can carry it out.

        It is then given the files and blocks to read.
        """
        return self in (Strategy.BLOCKS, Strategy.FILES)


STRATEGIES = tuple(strategy.value for strategy in Strategy)
