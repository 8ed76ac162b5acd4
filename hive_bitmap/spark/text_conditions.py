"""Pass conditions that users write as text to Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hive_bitmap.core.predicates.tokens import require_characters

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def satisfying(frame: DataFrame, condition: str) -> DataFrame:
    """Return the rows of a DataFrame that satisfy an SQL condition.

    The condition is put in parentheses, because `where` would read the last word of `k = 1 AND` as an alias. It must be
    valid without them, too, unlike `a) OR (b`. Raises ParseException, and InvalidPredicate for text that is not valid
    Unicode.
    """
    require_characters(condition)
    unbracketed = frame.where(condition)
    if not hasattr(frame, "_jdf"):
        unbracketed.schema  # noqa: B018 - Spark Connect parses when the schema is requested
    return frame.where(bracketed(condition))


def bracketed(condition: str) -> str:
    """Return a condition in parentheses.

    A line break keeps a comment at its end from hiding the closing parenthesis.
    """
    return f"({condition}\n)" if "--" in condition else f"({condition})"
