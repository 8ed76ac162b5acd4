"""Which splits of a file may contain a row of its selected blocks."""

from __future__ import annotations

import numpy as np
import pytest

from hive_bitmap.spark.reading.superset import Ranges, Split


@pytest.mark.parametrize(
    ("split", "touched"),
    [((0, 99), False), ((0, 100), True), ((50, 60), True), ((120, 10), True), ((200, 50), True), ((201, 99), False)],
)
def test_a_line_at_the_end_of_a_split_is_the_splits(split: tuple[int, int], touched: bool) -> None:
    ranges = Ranges(np.array([100, 900]), np.array([200, 950]))
    assert ranges.touch(Split("file:/f", *split)) == touched
