"""The verdict on an index that was estimated: worth it, only for counts, or not worth it, and why."""

from __future__ import annotations

LARGE = 0.5  # of the size of the table: an index of more is not worth its space
ROWS_OF_A_KEY = 2.0  # with fewer, about each row has a key of its own
FEW_ROWS, FEW_BLOCKS = 0.01, 0.5  # shares that a rare key has of the rows and blocks, if it is worth looking it up
MANY_KEYS = 100_000  # more than these, counts by them are Spark's


def verdict(
    *, rows: int, keys: float, size: float, rare_rows: float | None, rare_blocks: float | None, has_bitmaps: bool = True
) -> str:
    """Return the verdict in a sentence.

    The table has so many `rows`, the index `keys`; `size` is that of the index divided by that of the table. A rare key
    has the shares `rare_rows` and `rare_blocks`; None if no block was looked at.

    >>> verdict(rows=3_000_000, keys=4, size=0.01, rare_rows=0.001, rare_blocks=1.0)
    'worth it: a rare key selects 0.1 % of the rows, and counts and groups come from the index'
    >>> verdict(rows=200_000, keys=200_000, size=0.9, rare_rows=5e-6, rare_blocks=0.01)
    'not worth it: the index takes 90 % of the size of the table'
    """
    if rare_rows is None or rare_blocks is None:
        return "not known: no block could be indexed"
    if size > LARGE:
        return f"not worth it: the index takes {size:.0%} of the size of the table".replace("%", " %")
    few = rare_rows <= FEW_ROWS or rare_blocks <= FEW_BLOCKS
    counts = has_bitmaps and keys <= MANY_KEYS
    selects = f"a rare key selects {100 * rare_rows:.2g} % of the rows"
    if few and counts:
        return f"worth it: {selects}, and counts and groups come from the index"
    if few and rows <= ROWS_OF_A_KEY * keys:
        return f"worth it to look up single rows, not for counts and groups: about each row has its own key ({selects})"
    if few:
        return f"worth it to look up rare keys, not for counts and groups by them: {selects}"
    if counts:
        return f"only for counts and groups: even a rare key is in {rare_blocks:.0%} of the blocks".replace("%", " %")
    return f"not worth it: even a rare key is in {rare_blocks:.0%} of the blocks".replace("%", " %")
