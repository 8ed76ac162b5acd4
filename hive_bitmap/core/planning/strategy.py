"""The strategies for a query, and the reasons to leave it to Spark."""

from __future__ import annotations

from enum import Enum

from hive_bitmap.errors import NotFound


class Reason(str, Enum):
    """Why Spark answers a query without indexes.

    A reason is equal to its code, such as "no_index", and has a `sentence`.
    """

    sentence: str

    def __new__(cls, code: str, sentence: str) -> Reason:
        """Create a reason from its code and its sentence."""
        reason = str.__new__(cls, code)
        reason._value_, reason.sentence = code, sentence
        return reason

    NO_INDEX = "no_index", "the table has no usable index"
    NOT_TESTED = "not_tested", "the condition tests no indexed column, or a grouping column is not indexed"
    NOT_COUNTED = "not_counted", "the aggregation cannot be computed from keys and their counts"
    NOT_UNDERSTOOD = "not_understood", "the condition on the indexed columns is not understood"
    NOT_FRESH = "not_fresh", "every file is new or changed since the index was built"
    NOT_SELECTIVE = "not_selective", "a full scan costs no more"
    LIMIT = "limit", "Spark stops after the first rows, which it finds at once"
    TOO_LARGE = "too_large", "the keys of an answer would take more memory than hive_bitmap.answer_bytes"
    NOT_EXACT = "not_exact", "sums of such large numbers may depend on the order of the rows, or overflow"
    TOO_SMALL = "too_small", "Spark reads all of it in less time than planning takes"
    UNSUPPORTED = "unsupported", "the table, its layout or a setting of the session is not supported"
    POSITIONS = "positions", "the result depends on the positions of rows, as with a sample or rand()"
    CACHED = "cached", "the rows are in the session's cache"
    OFF = "off", "a setting switches indexes off, or forces a full scan"
    AWAY = "away", "the Python process of the server, which decides, is starting, is busy, or has ended"
    LATE = "late", "planning took longer than hive_bitmap.planning_seconds"
    STORE = "store", "the store of the files fails or denies access"
    ERROR = "error", "something failed; the log has the details"

    __str__ = str.__str__

    @classmethod
    def named(cls, code: str) -> Reason:
        """Return the reason with this code.

        Return ERROR for an unknown code, which another version may send.
        """
        return next((reason for reason in cls if reason.value == code), cls.ERROR)


class Strategy(str, Enum):
    """How a query is answered.

    A strategy is equal to its name in settings, EXPLAIN and JSON, such as "full scan".
    """

    INDEX_ONLY = "index only"
    ROWS = "rows"
    BLOCKS = "blocks"
    FILES = "files"
    FULL_SCAN = "full scan"

    __str__ = str.__str__

    @classmethod
    def chosen(cls, name: str | None) -> Strategy | None:
        """Return the strategy of this name; None lets the planner choose.

        Raises NotFound for an unknown name.
        """
        if name is not None and name not in STRATEGIES:
            raise NotFound.of("strategy", name, STRATEGIES)
        return None if name is None else cls(name)

    @property
    def reads_selected(self) -> bool:
        """Whether only the rows, blocks or files that the index selects are read."""
        return self in (Strategy.ROWS, Strategy.BLOCKS, Strategy.FILES)

    @property
    def is_by_reader(self) -> bool:
        """Whether Spark's own reader reads the selected files or blocks."""
        return self in (Strategy.BLOCKS, Strategy.FILES)


STRATEGIES = tuple(strategy.value for strategy in Strategy)
