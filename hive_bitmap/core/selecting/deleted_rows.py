"""Turn deleted rows into a selection.

They are rows that a table has deleted and its files still have. Positions in files become bits of blocks.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hive_bitmap.core.bitmaps import selection
from hive_bitmap.core.bitmaps.selection import BitLayout
from hive_bitmap.core.selecting.lookup_units import LookupUnit


def deleted_bits(unit: LookupUnit, where: BitLayout) -> npt.NDArray[np.uint8]:
    """Return the selection of the deleted rows of a unit.

    `where` is its layout.
    """
    bits = selection.nothing(where)
    for number, path in enumerate(unit.paths):
        deleted = unit.deleted.get(path)
        if deleted is None:
            continue
        blocks = np.arange(*np.searchsorted(unit.file, [number, number + 1]))
        ends = np.cumsum(unit.rows[blocks])
        at = np.searchsorted(ends, deleted.rows, side="right")
        row = deleted.rows - (ends - unit.rows[blocks])[at]
        np.bitwise_or.at(bits, where.starts[blocks[at]] + (row >> 3), (1 << (row & 7)).astype(np.uint8))
    return bits
