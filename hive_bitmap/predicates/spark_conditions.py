"""Conditions that users type, as Spark understands them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hive_bitmap.errors import InvalidPredicate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def satisfying(frame: DataFrame, condition: str) -> DataFrame:
    """The rows of which an SQL condition is true.

    `where` by itself would take the last word of `k = 1 AND` for the name of a condition. Raises ParseException for
    what does not parse, which may speak of the brackets, and InvalidPredicate for what is no text.
    """
    require_characters(condition)
    return frame.where(bracketed(condition))


def require_characters(text: str) -> None:
    """Raise InvalidPredicate for half a surrogate pair: Python makes it of bytes that are no UTF-8, and Java fails."""
    if surrogate := re.search("[\ud800-\udfff]", text):
        raise InvalidPredicate.at(text, surrogate.start(), "half a surrogate pair is no character")


def bracketed(condition: str) -> str:
    """A condition in brackets, which a comment at its end must not take in."""
    return f"({condition}\n)" if "--" in condition else f"({condition})"
