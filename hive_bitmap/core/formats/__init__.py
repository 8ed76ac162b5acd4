"""The supported file formats.

A format finds the blocks of a file, and reads the values of their rows as Spark does. Each file format is a module.
Modules of formats that Arrow can read implement `Format`; those of formats that only Spark reads implement `Layout`,
and `EngineFormat` makes a `Format` of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hive_bitmap.core.formats import avro, orc, parquet, rcfile, sequencefile, text
from hive_bitmap.core.formats.blocks import Blocks, Bounds, Layout
from hive_bitmap.core.formats.engine import EngineFormat
from hive_bitmap.core.formats.key_values import KeyColumn
from hive_bitmap.core.formats.parquet_rows import FEW_ROWS

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
]


class Format(Protocol):
    """Operations on the files of one format.

    A handle is the value that `open_file` of the same format returned. It is not sent to another process.
    """

    def open_file(self, path: str) -> Any:
        """Open a file and read its footer.

        Raises FileNotFoundError or Undecodable.
        """

    def blocks(self, handle: Any) -> Blocks:
        """Return all blocks of the file, in file order.

        Raises Undecodable.
        """

    def names(self, handle: Any) -> list[str]:
        """Return the names of the file's top-level columns.

        The result is empty for a file in which columns are found by position.
        """

    def by_name(self, handle: Any) -> bool:
        """Return whether Spark finds all columns by name.

        Then the keys of this file stay the same if other columns change.
        """

    def column_bytes(self, handle: Any, columns: Sequence[KeyColumn]) -> npt.NDArray[np.int64]:
        """Estimate how many bytes columns take in each block.

        The estimate comes from the footer (int64, in the order of `blocks`). Every number is at least 1. Raises
        Undecodable.
        """

    def key_columns(self, handle: Any, block: int, columns: Sequence[KeyColumn]) -> pa.Table:
        """Return the columns of all rows of a block as keys.

        `block` is its number. The columns (see `key_values`) are in the given order, with the types of
        `key_values.arrow_type`; strings may be dictionary-encoded. Raises Undecodable unless the values are certainly
        the same that Spark reads.
        """

    def spark_only_columns(self, handle: Any, schema: Sequence[KeyColumn]) -> dict[str, str]:
        """Return the table columns that only Spark may read from this file, with reasons.

        `read_rows` must not be called with these columns, except for nested columns whose marks allow it.
        """

    def nested_marks(self, handle: Any, schema: Sequence[KeyColumn]) -> list[str]:
        """Return the marks of the table's nested columns in this file.

        Marks say what `read_rows` can read of a column (see `core/nested_types`). `schema` has the columns of the
        table. The nested columns are `spark_only_columns`, too: readers that do not know marks leave them to Spark.
        """

    def bounds(self, handle: Any, columns: Sequence[KeyColumn]) -> dict[str, Bounds]:
        """Return the bounds of columns in each block, by the names of the columns.

        Columns without certain bounds are missing: those of other types than integers, dates and timestamps, and those
        that the file lacks, or stores in another way. Raises Undecodable.
        """

    def rehearse(self, handle: Any, schema: Sequence[KeyColumn]) -> None:
        """Read everything in the footer that queries will read later.

        `schema` has the columns of the table. A damaged footer may end the process whose C++ libraries read it, so a
        build task reads it before any other process does. `nested_marks` reads what queries need of nested columns.
        Raises Undecodable.
        """

    def bytes_at_once(self, path: str, columns: Sequence[KeyColumn]) -> int:
        """Estimate how many bytes `read_rows` decodes at once, for any selection.

        Raises FileNotFoundError or Undecodable.
        """

    def read_rows(
        self,
        path: str,
        columns: Sequence[KeyColumn],
        selection: Sequence[tuple[int, npt.NDArray[np.int64] | None]],
    ) -> Iterator[pa.RecordBatch]:
        """Yield the selected rows of the file, with these columns.

        Rows are in file order. `selection` has pairs of the number of a block, ascending, and the numbers of its
        selected rows, 0-based inside the block and ascending, or None for all rows. Raises FileNotFoundError,
        Undecodable or FileChanged when the first or a later batch is requested.
        """

    def read_together(
        self,
        files: Sequence[tuple[str, Sequence[tuple[int, npt.NDArray[np.int64] | None]]]],
        columns: Sequence[KeyColumn],
    ) -> pa.RecordBatch | None:
        """Return the selected rows of several files, at most FEW_ROWS in all.

        `files` are paths and selections as `read_rows` takes them; the rows are in the order of the files. Returns None
        if `read_rows` has to read each file instead. Raises the same errors as `read_rows`.
        """


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """A file format of tables.

    The metastore identifies it by the class of the table's input format. A format has either a `reader`, which reads
    values with Arrow, or a `layout`, if only Spark reads its values. A table of a format with a layout is supported if
    its SerDe is one of `serdes`, which make exactly one row of each record. Session settings that change how Spark
    reads such files belong to `listings/serde.DOUBTFUL_SETTINGS`. Files with one of the suffixes `unsplit` are never
    split.
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
BY_INPUT_FORMAT: Mapping[str, FileFormat] = {format_.input_format: format_ for format_ in FILE_FORMATS}
UNSPLIT: Mapping[str, tuple[str, ...]] = {format_.name: format_.unsplit for format_ in FILE_FORMATS}
LAYOUTS: Mapping[str, Layout] = {format_.name: format_.layout for format_ in FILE_FORMATS if format_.layout is not None}
FORMATS: Mapping[str, Format] = {
    format_.name: format_.reader for format_ in FILE_FORMATS if format_.reader is not None
} | {name: EngineFormat(name, layout) for name, layout in LAYOUTS.items()}
