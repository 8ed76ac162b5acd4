"""Find the blocks of files whose values only the engine (Spark) reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hive_bitmap.core import stores
from hive_bitmap.core.formats import blocks
from hive_bitmap.core.formats.blocks import Blocks, Bounds, Layout
from hive_bitmap.core.formats.key_values import KeyColumn
from hive_bitmap.errors import Undecodable


@dataclass(frozen=True)
class EngineHandle:
    """The handle of a file that only Spark reads.

    The file existed when it was opened.
    """

    path: str


@dataclass(frozen=True)
class EngineFormat:
    """A `Format` that only finds the blocks of a file.

    The layout of the format finds the blocks. No column can be read.
    """

    name: str
    layout: Layout

    def open_file(self, path: str) -> EngineHandle:
        """Return a handle of the file, after checking that the file exists.

        Raises FileNotFoundError.
        """
        stores.status(path)
        return EngineHandle(path)

    def blocks(self, handle: EngineHandle) -> Blocks:
        """Return all blocks of the file.

        Raises Undecodable.
        """
        return blocks.blocks(self.layout, handle.path)

    def names(self, handle: EngineHandle) -> list[str]:
        """Return no names, because only Spark knows the columns of the file."""
        return []

    def by_name(self, handle: EngineHandle) -> bool:
        """Return False: a SerDe decides how columns are found."""
        return False

    def column_bytes(self, handle: EngineHandle, columns: Sequence[KeyColumn]) -> npt.NDArray[np.int64]:
        """Return the size of each block in bytes.

        The sizes of single columns are not known.
        """
        return np.maximum(self.blocks(handle).length, 1)

    def key_columns(self, handle: EngineHandle, block: int, columns: Sequence[KeyColumn]) -> pa.Table:
        """Raise Undecodable: only Spark reads these files."""
        raise Undecodable(self._reason)

    def spark_only_columns(self, handle: EngineHandle, schema: Sequence[KeyColumn]) -> dict[str, str]:
        """Return all columns, with the reason: only Spark reads these files."""
        return {column.name: self._reason for column in schema}

    def nested_marks(self, handle: EngineHandle, schema: Sequence[KeyColumn]) -> list[str]:
        """Return no marks (see `Format.nested_marks`): only Spark reads these files."""
        return []

    def bounds(self, handle: EngineHandle, columns: Sequence[KeyColumn]) -> dict[str, Bounds]:
        """Return no bounds: only Spark reads these files."""
        return {}

    def rehearse(self, handle: EngineHandle, schema: Sequence[KeyColumn]) -> None:
        """Do nothing: Arrow does not read these files."""

    def bytes_at_once(self, path: str, columns: Sequence[KeyColumn]) -> int:
        """Raise Undecodable: only Spark reads these files."""
        raise Undecodable(self._reason)

    def read_rows(
        self,
        path: str,
        columns: Sequence[KeyColumn],
        selection: Sequence[tuple[int, npt.NDArray[np.int64] | None]],
    ) -> Iterator[pa.RecordBatch]:
        """Raise Undecodable: only Spark reads these files."""
        raise Undecodable(self._reason)

    def read_together(
        self,
        files: Sequence[tuple[str, Sequence[tuple[int, npt.NDArray[np.int64] | None]]]],
        columns: Sequence[KeyColumn],
    ) -> None:
        """Raise Undecodable: only Spark reads these files."""
        raise Undecodable(self._reason)

    @property
    def _reason(self) -> str:
        return f"only Spark's own reader reads {self.name} files"
