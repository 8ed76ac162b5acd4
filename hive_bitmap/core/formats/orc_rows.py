"""Read a few rows of an ORC stripe with pyorc.

pyorc seeks by the row index, while Arrow decodes the whole stripe. Measured on one core with nine columns and a stripe
of 150,000 rows: decoding all takes 29 ms; seeking takes 2 ms to open the stripe and 0.45 ms for each row.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyorc
from pyorc.converters import ORCConverter

from hive_bitmap.core.formats.key_values import decoding
from hive_bitmap.core.formats.orc_file import OrcHandle

_BATCH_ROWS = 8  # rows that pyorc decodes after each seek
_SECOND = 1_000_000_000


class _Days(ORCConverter):
    @staticmethod
    def from_orc(days: int) -> int:
        return days


class _Nanoseconds(ORCConverter):
    @staticmethod
    def from_orc(seconds: int, nanoseconds: int, timezone: object) -> int:
        return seconds * _SECOND + nanoseconds


_CONVERTERS = {
    pyorc.TypeKind.DATE: _Days,
    pyorc.TypeKind.TIMESTAMP: _Nanoseconds,
    pyorc.TypeKind.TIMESTAMP_INSTANT: _Nanoseconds,
}


def decoded_share(selected: Any, rows: Any, stride: int) -> Any:
    """Return the cost of reading rows of a stripe, as a share of decoding it all.

    `selected` of the `rows` rows are read. The cost is 1 if the whole stripe is decoded, and less if pyorc seeks to
    each row. `stride` is the number of rows between two entries of the row index. Opening the stripe costs as much as
    decoding `stride` rows; a seek costs a quarter as much. Numbers and arrays are accepted.
    """
    few = np.maximum(selected, 2) * stride <= rows
    return np.where(few, (1 + selected / 4) * stride / np.maximum(rows, 1), 1.0)


class RowReader:
    """A reader of single rows of an open ORC file.

    `names` are the top-level columns to read.
    """

    def __init__(self, handle: OrcHandle, names: Collection[str]) -> None:
        self._handle = handle
        self._columns = handle.positions(names)

    def pays(self, selected: int, total: int) -> bool:
        """Return whether seeking `selected` of `total` rows beats decoding the stripe.

        The result is false without a row index.
        """
        stride: int = self._handle.file.row_index_stride
        return stride > 0 and bool(decoded_share(selected, total, stride) < 1)

    def read(self, block: int, rows: npt.NDArray[np.int64]) -> pa.RecordBatch | None:
        """Return rows of the stripe `block`, as pyarrow would.

        `rows` are row numbers, 0-based and ascending. Returns None if pyorc cannot read the rows.
        """
        try:
            stripe = self._reader.read_stripe(block)
            read = []
            for row in rows.tolist():
                stripe.seek(row)
                read.append(next(stripe))
            schema = self._schema()
            arrays = [
                pa.array(column, field.type) for column, field in zip(zip(*read, strict=True), schema, strict=True)
            ]
            return pa.RecordBatch.from_arrays(arrays, schema=schema)
        except (pyorc.ParseError, ValueError, OverflowError, StopIteration, pa.ArrowException):
            return None

    def rehearse(self) -> None:
        """Read everything in the footer that `read` needs, to find damage early.

        Raises Undecodable if the footer is damaged.
        """
        with decoding("its footer"):
            if self._columns and self._reader.num_of_stripes:
                self.pays(1, 1)
                self._schema()

    def _schema(self) -> pa.Schema:
        return pa.schema([self._handle.file.schema.field(number) for number in self._columns])

    @cached_property
    def _reader(self) -> pyorc.Reader:
        return pyorc.Reader(
            self._handle.source, batch_size=_BATCH_ROWS, column_indices=self._columns, converters=_CONVERTERS
        )
