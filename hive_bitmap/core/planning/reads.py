"""How much of a table each way of reading reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hive_bitmap.core.columns import Column
from hive_bitmap.core.formats.orc_rows import decoded_share

WIDTHS = {"boolean": 1, "tinyint": 1, "smallint": 2, "int": 4, "float": 4, "date": 4}  # bytes of a value
WIDTHS |= dict.fromkeys(("bigint", "double", "timestamp", "timestamp_ntz"), 8)
WIDE = 16  # bytes of a value of any other type
ORC_STRIDE = 10_000  # rows between two entries of a stripe's row index, by default
SPLIT_BYTES = 32 << 20  # fs.local.block.size; other file systems have splits four times as large


@dataclass(frozen=True, kw_only=True)
class Reads:
    """How much of a table is read.

    Figures are bytes of its files unless a comment says otherwise.
    """

    total: int  # all files
    whole: int  # files that are read whole
    decoded: int  # files that are read whole, and the decoded part of the selected blocks
    needed: int  # files, or splits, with a selected block, and files that are read whole
    rows: int  # the number of selected rows
    rows_of_blocks: int  # the number of all rows of the selected blocks
    blocks: int  # selected blocks
    ranges: int  # the number of runs of adjacent selected blocks
    files: int = 0  # the number of all files
    opened: int = 0  # the number of files of which anything is read
    values: int = 0  # the number of values in all blocks, in all columns; 0: not known
    stored: int = 0  # all blocks

    @property
    def values_per_byte(self) -> float:
        """The number of values in a byte of the blocks.

        All columns count together; 0 if not known.
        """
        return self.values / max(self.stored, 1)

    def until(self, limit: int | None, *, narrowed: bool = False) -> Reads:
        """Estimate what Spark reads until it has `limit` selected rows.

        That is all if `limit` is None. Selected blocks lie in runs, with gaps of other blocks around them. A full scan
        reads the first gap, and then in proportion to the rows; a `narrowed` scan reads no gaps.
        """
        if limit is None:
            return self
        gap = 0 if narrowed else max(self.stored - self.blocks, 0) / (self.ranges + 1)
        share = min(gap / max(self.stored, 1) + limit / max(self.rows, 1), 1.0)
        part = self.times(share)
        return replace(
            part,
            files=max(part.files, min(self.files, 1)),
            opened=max(part.opened, min(self.opened, 1)),
            ranges=max(part.ranges, min(self.ranges, 1)),
        )

    def times(self, factor: float) -> Reads:
        """Scale the figures of a sample to the whole table."""
        return Reads(**{name: round(factor * figure) for name, figure in asdict(self).items()})


def reads(format: str, files: pa.Table, blocks: pa.Table, *, splits: bool, columns: int = 0) -> Reads:
    """Measure what is read of these files and blocks.

    They have FILES_SCHEMA and BLOCKS_SCHEMA. With `splits`, Spark can skip splits. `columns` is the number of columns
    of the table; 0 if not known.
    """
    sizes, scanned = files["size"].to_numpy(), files["scanned"].to_numpy(zero_copy_only=False)
    whole, selected = int(sizes[scanned].sum()), blocks["selected"].to_numpy()
    needed = _split_bytes if splits else _file_bytes
    return Reads(
        total=int(sizes.sum()),
        whole=whole,
        decoded=decoded_bytes(format, blocks) + whole,
        needed=int(needed(sizes, scanned, blocks.filter(pa.array(selected > 0)))),
        rows=int(selected.sum()),
        rows_of_blocks=int(blocks["rows"].to_numpy()[selected > 0].sum()),
        blocks=int(blocks["length"].to_numpy()[selected > 0].sum()),
        ranges=_ranges(blocks["file"].to_numpy(), selected > 0),
        files=files.num_rows,
        opened=int(scanned.sum()) + len(np.unique(blocks["file"].to_numpy()[selected > 0])),
        values=int(blocks["rows"].to_numpy().sum()) * columns,
        stored=int(blocks["length"].to_numpy().sum()),
    )


def _ranges(file: npt.NDArray[np.int32], selected: npt.NDArray[np.bool_]) -> int:
    """Count the runs of adjacent selected blocks.

    A run does not go beyond its file.
    """
    if not len(selected):
        return 0
    starts = selected.copy()
    starts[1:] &= ~(selected[:-1] & (file[1:] == file[:-1]))
    return int(starts.sum())


def share_of_bytes(needed: Sequence[Column], columns: Sequence[Column]) -> float:
    """Estimate the share of a file's bytes that these columns take."""
    return sum(map(_width, needed)) / max(sum(map(_width, columns)), 1)


def decoded_bytes(format: str, blocks: pa.Table) -> int:
    """Return the bytes that are decoded of the selected blocks.

    Of an ORC stripe, they are the bytes around its selected rows.
    """
    rows, selected, length = (blocks[name].to_numpy() for name in ("rows", "selected", "length"))
    share = decoded_share(selected, rows, ORC_STRIDE) if format == "orc" else 1.0
    return int(np.sum(length * share, where=selected > 0))


def _width(column: Column) -> int:
    return WIDTHS.get(column.type, WIDE)


def _file_bytes(sizes: npt.NDArray[np.int64], scanned: npt.NDArray[np.bool_], blocks: pa.Table) -> np.int64:
    """Return the bytes of the files to read.

    These hold one of the blocks, or are read whole.
    """
    needed = scanned.copy()
    needed[blocks["file"].to_numpy()] = True
    return sizes[needed].sum()


def _split_bytes(sizes: npt.NDArray[np.int64], scanned: npt.NDArray[np.bool_], blocks: pa.Table) -> np.int64:
    """Estimate the bytes of the splits to read.

    These hold one of the blocks, or belong to files that are read whole.
    """
    places = np.stack([blocks["file"].to_numpy(), blocks["offset"].to_numpy() // SPLIT_BYTES])
    touched = np.bincount(np.unique(places, axis=1)[0], minlength=len(sizes))
    return np.where(scanned, sizes, np.minimum(sizes, touched * SPLIT_BYTES)).sum()
