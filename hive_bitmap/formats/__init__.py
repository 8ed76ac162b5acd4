"""Where the blocks of a base file lie, and reading their rows: one module a file format, each a `Format`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hive_bitmap.formats import avro, orc, parquet, rcfile, sequencefile, text
from hive_bitmap.formats.blocks import Blocks
from hive_bitmap.formats.engine import EngineFormat
from hive_bitmap.formats.key_values import KeyColumn
from hive_bitmap.formats.units import Layout

__all__ = [
    "BY_INPUT_FORMAT",
    "FORMATS",
    "LAYOUTS",
    "FileFormat",
    "Format",
    "blocks",
    "calendar_checks",
    "engine",
    "key_values",
    "orc_rows",
    "text",
    "units",
]


class Format(Protocol):
    """What a file format can do; a handle is whatever its `open_file` returned, and serves one process."""

    def open_file(self, path: str) -> Any:
        """Open a file and read its footer; raises FileNotFoundError, Undecodable."""

    def blocks(self, handle: Any) -> Blocks:
        """All blocks of the file, in file order; raises Undecodable."""

    def column_bytes(self, handle: Any, columns: Sequence[KeyColumn]) -> npt.NDArray[np.int64]:
        """About how many bytes these columns take in each block, at least 1, by the footer; raises Undecodable.

        One number a block, in the order of `blocks`.
        """

    def key_columns(self, handle: Any, block: int, columns: Sequence[KeyColumn]) -> pa.Table:
        """The columns of block number `block` as keys (see `key_values`), in the given order: all rows of the block.

        Their types are `key_values.arrow_type`; strings may be dictionary-encoded. Values are what Spark shows: raises
        Undecodable where that is not sure.
        """

    def indirect_columns(self, handle: Any, schema: Sequence[KeyColumn]) -> dict[str, str]:
        """Of all columns of the table, those that `read_rows` must not read from this file, each with the reason."""

    def read_rows(
        self,
        path: str,
        columns: Sequence[KeyColumn],
        selection: Sequence[tuple[int, npt.NDArray[np.int64] | None]],
    ) -> Iterator[pa.RecordBatch]:
        """The selected rows of the file, in file order, with these columns.

        `selection` has pairs of a block's number, ascending, and the numbers of its rows, 0-based and ascending, or
        None for all of them. Raises, at the first or a later batch, FileNotFoundError, Undecodable, FileChanged.
        """


@dataclass(frozen=True)
class FileFormat:
    """A file format, and how the metastore says that a table is stored as it: by the class of its input format.

    Arrow reads the values of its files if it has a `reader`. If it has a `layout` instead, only Spark does: where it
    reads with one of the `serdes`, which make one row of one record.
    """

    name: str
    input_format: str
    reader: Format | None = None
    layout: Layout | None = None
    serdes: tuple[str, ...] = ()


_HIVE, _HADOOP = "org.apache.hadoop.hive.", "org.apache.hadoop.mapred."
_SERDE, _HCATALOG = f"{_HIVE}serde2.", "org.apache.hive.hcatalog.data."
_LAZY_SIMPLE = f"{_SERDE}lazy.LazySimpleSerDe"
_TEXTS = (_LAZY_SIMPLE, f"{_SERDE}JsonSerDe", f"{_HCATALOG}JsonSerDe", f"{_SERDE}OpenCSVSerde", f"{_SERDE}RegexSerDe")
_COLUMNAR = (f"{_SERDE}columnar.ColumnarSerDe", f"{_SERDE}columnar.LazyBinaryColumnarSerDe")
_RECORDS = (_LAZY_SIMPLE, f"{_SERDE}lazybinary.LazyBinarySerDe")
# A file format more is a module, and its line here.
FILE_FORMATS = (
    FileFormat("parquet", f"{_HIVE}ql.io.parquet.MapredParquetInputFormat", reader=parquet),
    FileFormat("orc", f"{_HIVE}ql.io.orc.OrcInputFormat", reader=orc),
    FileFormat("text", f"{_HADOOP}TextInputFormat", layout=text, serdes=_TEXTS),
    FileFormat("avro", f"{_HIVE}ql.io.avro.AvroContainerInputFormat", layout=avro, serdes=(f"{_SERDE}avro.AvroSerDe",)),
    FileFormat("rcfile", f"{_HIVE}ql.io.RCFileInputFormat", layout=rcfile, serdes=_COLUMNAR),
    FileFormat("sequencefile", f"{_HADOOP}SequenceFileInputFormat", layout=sequencefile, serdes=_RECORDS),
)
BY_INPUT_FORMAT: Mapping[str, FileFormat] = {one.input_format: one for one in FILE_FORMATS}
LAYOUTS: Mapping[str, Layout] = {one.name: one.layout for one in FILE_FORMATS if one.layout is not None}
FORMATS: Mapping[str, Format] = {one.name: one.reader for one in FILE_FORMATS if one.reader is not None} | {
    name: EngineFormat(name, layout) for name, layout in LAYOUTS.items()
}
