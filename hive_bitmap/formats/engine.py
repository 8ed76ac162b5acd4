"""Formats whose values only the engine reads: where blocks lie is known here, what they hold is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hive_bitmap import stores
from hive_bitmap.errors import Undecodable
from hive_bitmap.formats import units
from hive_bitmap.formats.blocks import Blocks
from hive_bitmap.formats.key_values import KeyColumn
from hive_bitmap.formats.units import Layout


@dataclass(frozen=True)
class EngineHandle:
    """A file that is there."""

    path: str


@dataclass(frozen=True)
class EngineFormat:
    """A `Format` that tells the blocks of a file by its layout, and reads no column."""

    name: str
    layout: Layout

    def open_file(self, path: str) -> EngineHandle:
        """Raises FileNotFoundError."""
        stores.status(path)
        return EngineHandle(path)

    def blocks(self, handle: EngineHandle) -> Blocks:
        """All blocks of the file; raises Undecodable."""
        return units.blocks(self.layout, handle.path)

    def column_bytes(self, handle: EngineHandle, columns: Sequence[KeyColumn]) -> npt.NDArray[np.int64]:
        """The bytes of each block, for nothing tells its columns apart."""
        return np.maximum(self.blocks(handle).length, 1)

    def key_columns(self, handle: EngineHandle, block: int, columns: Sequence[KeyColumn]) -> pa.Table:
        """Raises Undecodable."""
        raise Undecodable(self._reason)

    def indirect_columns(self, handle: EngineHandle, schema: Sequence[KeyColumn]) -> dict[str, str]:
        """All columns."""
        return {column.name: self._reason for column in schema}

    def read_rows(
        self,
        path: str,
        columns: Sequence[KeyColumn],
        selection: Sequence[tuple[int, npt.NDArray[np.int64] | None]],
    ) -> Iterator[pa.RecordBatch]:
        """Raises Undecodable."""
        raise Undecodable(self._reason)

    @property
    def _reason(self) -> str:
        return f"only Spark's own reader reads {self.name} files"
