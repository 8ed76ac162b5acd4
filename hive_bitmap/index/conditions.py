"""Conditions that users type, as Spark understands them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def satisfying(frame: DataFrame, condition: str) -> DataFrame:
    """The rows of which an SQL condition is true.

    `where` by itself would take the last word of `k = 1 AND` for the name of a condition. Raises ParseException for
    what does not parse, which may speak of the brackets.
    """
    return frame.where(bracketed(condition))


def bracketed(condition: str) -> str:
    """A condition in brackets, which a comment at its end must not take in."""
    return f"({condition}\n)" if "--" in condition else f"({condition})"
