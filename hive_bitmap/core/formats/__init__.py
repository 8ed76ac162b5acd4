"""The supported file formats: where the blocks of a file are, and the values of their rows as Spark reads them.

Each file format is a module. Modules of formats whose values Arrow reads implement `Format`; those of formats that only
Spark reads implement `Layout`, and `EngineFormat` makes a `Format` of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hive_bitmap.core.formats import avro, orc, parquet, rcfile, sequencefile, text
from hive_bitmap.core.formats.blocks import Blocks
from hive_bitmap.core.formats.engine import EngineFormat
from hive_bitmap.core.formats.key_values import KeyColumn
from hive_bitmap.core.formats.parquet_rows import FEW_ROWS
from hive_bitmap.core.formats.units import Layout

__all__ = [
    "BY_INPUT_FORMAT",
    "FEW_ROWS",
    "FORMATS",
    "LAYOUTS",
    "UNSPLIT",
    "FileFormat",
    "Format",
    "blocks",
    "calendar_checks",
    "engine",
    "key_values",
    "orc_rows",
    "units",
]


class Format(Protocol):
    """Operations on the files of one format.

    A handle is the value that `open_file` of the same format returned. It is not sent to another process.
    """

    def open_file(self, path: str) -> Any:
        """Open a file and read its footer; raise FileNotFoundError or Undecodable."""

    def blocks(self, handle: Any) -> Blocks:
        """Return all blocks of the file, in file order; raise Undecodable."""

    def names(self, handle: Any) -> list[str]:
        """Return the top-level columns of the file by which a column of the table may be found; none without names."""

    def by_name(self, handle: Any) -> bool:
        """Whether Spark finds all columns by name, so that keys of this file stay as they are if others change."""

    def column_bytes(self, handle: Any, columns: Sequence[KeyColumn]) -> npt.NDArray[np.int64]:
        """Estimate from the footer how many bytes these columns take in each block (int64, in the order of `blocks`).

        Every number is at least 1. Raises Undecodable.
        """

    def key_columns(self, handle: Any, block: int, columns: Sequence[KeyColumn]) -> pa.Table:
        """Return the columns of all rows of block number `block` as keys (see `key_values`), in the given order.

        Their types are those of `key_values.arrow_type`; strings may be dictionary-encoded. Raises Undecodable unless
        the values are certainly the same that Spark reads.
        """

    def spark_only_columns(self, handle: Any, schema: Sequence[KeyColumn]) -> dict[str, str]:
        """Return the columns of the table that `read_rows` must not read from this file, each with the reason."""

    def rehearse(self, handle: Any, schema: Sequence[KeyColumn]) -> None:
        """Read in the footer all that later readers of these columns of the table read in it; raise Undecodable.

        A task of a build does so before any other process opens the file: a damaged footer may end the process in which
        C++ reads it.
        """

    def bytes_at_once(self, path: str, columns: Sequence[KeyColumn]) -> int:
        """Return about how many bytes `read_rows` may have to decode at once, however few rows are selected.

        Raises FileNotFoundError or Undecodable.
        """

    def read_rows(
        self,
        path: str,
        columns: Sequence[KeyColumn],
        selection: Sequence[tuple[int, npt.NDArray[np.int64] | None]],
    ) -> Iterator[pa.RecordBatch]:
        """Yield the selected rows of the file, in file order, with these columns.

        `selection` has pairs of the number of a block, ascending, and the numbers of its selected rows, 0-based inside
        the block and ascending, or None for all rows. Raises FileNotFoundError, Undecodable or FileChanged when the
        first or a later batch is requested.
        """

    def read_together(
        self,
        files: Sequence[tuple[str, Sequence[tuple[int, npt.NDArray[np.int64] | None]]]],
        columns: Sequence[KeyColumn],
    ) -> pa.RecordBatch | None:
        """Return few rows of several files at once, in the order of the files; None if `read_rows` has to read each.

        `files` are paths and selections as `read_rows` takes them. More than FEW_ROWS rows are never read. Raises as
        `read_rows` does.
        """


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """A file format, which the metastore identifies by the class of the table's input format.

    A format has either a `reader`, which reads values with Arrow, or a `layout`, if only Spark reads its values. Tables
    of the latter are supported if their SerDe is one of `serdes`, which make exactly one row of each record; settings
    of a session that change what their readers make of a file belong to `spark/metastore/serde.DOUBTFUL_SETTINGS`.
    Readers take a file whose name ends with one of `unsplit` as one split.
    """

    name: str
    input_format: str
    reader: Format | None = None
    layout: Layout | None = None
    serdes: tuple[str, ...] = ()
    unsplit: tuple[str, ...] = ()


_HIVE, _HADOOP = "org.apache.hadoop.hive.", "org.apache.hadoop.mapred."
_SERDE, _HCATALOG = f"{_HIVE}serde2.", "org.apache.hive.hcatalog.data."
_LAZY_SIMPLE = f"{_SERDE}lazy.LazySimpleSerDe"
_TEXTS = (_LAZY_SIMPLE, f"{_SERDE}JsonSerDe", f"{_HCATALOG}JsonSerDe", f"{_SERDE}OpenCSVSerde", f"{_SERDE}RegexSerDe")
_COLUMNAR = (f"{_SERDE}columnar.ColumnarSerDe", f"{_SERDE}columnar.LazyBinaryColumnarSerDe")
_RECORDS = (_LAZY_SIMPLE, f"{_SERDE}lazybinary.LazyBinarySerDe")
# To add a file format, write its module and add a line here.
FILE_FORMATS = (
    FileFormat(name="parquet", input_format=f"{_HIVE}ql.io.parquet.MapredParquetInputFormat", reader=parquet),
    FileFormat(name="orc", input_format=f"{_HIVE}ql.io.orc.OrcInputFormat", reader=orc),
    FileFormat(
        name="text",
        input_format=f"{_HADOOP}TextInputFormat",
        layout=text,
        serdes=_TEXTS,
        unsplit=text.COMPRESSED,
    ),
    FileFormat(
        name="avro",
        input_format=f"{_HIVE}ql.io.avro.AvroContainerInputFormat",
        layout=avro,
        serdes=(f"{_SERDE}avro.AvroSerDe",),
    ),
    FileFormat(name="rcfile", input_format=f"{_HIVE}ql.io.RCFileInputFormat", layout=rcfile, serdes=_COLUMNAR),
    FileFormat(
        name="sequencefile", input_format=f"{_HADOOP}SequenceFileInputFormat", layout=sequencefile, serdes=_RECORDS
    ),
)
BY_INPUT_FORMAT: Mapping[str, FileFormat] = {one.input_format: one for one in FILE_FORMATS}
UNSPLIT: Mapping[str, tuple[str, ...]] = {one.name: one.unsplit for one in FILE_FORMATS}
LAYOUTS: Mapping[str, Layout] = {one.name: one.layout for one in FILE_FORMATS if one.layout is not None}
FORMATS: Mapping[str, Format] = {one.name: one.reader for one in FILE_FORMATS if one.reader is not None} | {
    name: EngineFormat(name, layout) for name, layout in LAYOUTS.items()
}
