"""Make the block map of a plan.

The map has one row per file and one cell per block. If a file has too many blocks, adjacent blocks share a cell. A
limited number of files is drawn, in the plan's order. If there are more files, the files that the plan reads are drawn
by preference. Files that are not drawn are counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.planning.plan import Plan

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Cells:
    """The cells of one file, each for one or more adjacent blocks.

    Each array has an element per cell.
    """

    first: Int64s  # number of the cell's first block in its file
    blocks: Int64s  # number of blocks
    offset: Int64s  # position of the first block in the file
    length: Int64s  # bytes of all blocks of the cell
    rows: Int64s  # number of rows
    selected: Int64s  # number of selected rows

    def __len__(self) -> int:
        return len(self.rows)

    def share(self) -> npt.NDArray[np.float64]:
        """Return the share of selected rows of each cell, 0 to 1."""
        return self.selected / np.maximum(self.rows, 1)


@dataclass(frozen=True, kw_only=True)
class MapRow:
    """A file of the map.

    `state` is the freshness of the file, and `reason` says why the file is not fresh, if this is known. `scanned` says
    whether the file is read whole. `cells` is empty if the blocks of the file are not in the index.
    """

    path: str
    partition: str
    state: str
    reason: str
    size: int
    scanned: bool
    cells: Cells

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class BlockMap:
    """The files to draw, in the plan's order.

    `more` is the number of files that are not drawn. `kept_more` is the number of them that the plan reads (see
    `Plan.kept_files`).
    """

    rows: tuple[MapRow, ...]
    more: int
    kept_more: int


def block_map(plan: Plan, max_files: int, max_cells: int) -> BlockMap:
    """Make the map of at most `max_files` files.

    A file has at most `max_cells` cells. `max_files` and `max_cells` are at least 1.
    """
    is_kept = plan.kept_files
    drawn = np.sort(np.argsort(~is_kept, kind="stable")[:max_files])
    file_of_block = _column(plan.blocks, "file")
    order = np.lexsort((_column(plan.blocks, "offset"), file_of_block))
    starts = np.searchsorted(file_of_block[order], drawn, side="left")
    ends = np.searchsorted(file_of_block[order], drawn, side="right")
    rows = tuple(
        MapRow(**file, cells=_cells(plan.blocks.take(order[start:end]), max_cells))
        for file, start, end in zip(_files(plan, drawn), starts, ends, strict=True)
    )
    return BlockMap(rows, len(is_kept) - len(drawn), int(is_kept.sum() - is_kept[drawn].sum()))


def _files(plan: Plan, numbers: Int64s) -> list[dict[str, Any]]:
    columns = ["path", "partition", "state", "reason", "size", "scanned"]
    files: list[dict[str, Any]] = plan.files.select(columns).take(pa.array(numbers)).to_pylist()
    return files


def _cells(blocks: pa.Table, max_cells: int) -> Cells:
    """Make the cells for the blocks of one file.

    `blocks` are sorted by offset. There are at most `max_cells` cells. All cells but the last have the same number of
    blocks.
    """
    count = len(blocks)
    group = max(1, -(-count // max_cells))
    first = np.arange(0, count, group, dtype=np.int64)

    def total(name: str) -> Int64s:
        return np.add.reduceat(_column(blocks, name), first) if count else first

    return Cells(
        first=first,
        blocks=np.diff(np.append(first, count)),
        offset=_column(blocks, "offset")[first],
        length=total("length"),
        rows=total("rows"),
        selected=total("selected"),
    )


def _column(table: pa.Table, name: str) -> Int64s:
    """Return a numeric or boolean column as integers; NULL becomes 0."""
    values: Int64s = pc.fill_null(table[name].cast(pa.int64()), 0).to_numpy()
    return values
