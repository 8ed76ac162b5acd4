"""Read base files of the supported formats.

A format finds the blocks of a file, and reads the values of the blocks' rows as Spark does. Each file format is a
module, which is loaded when a file of the format is first read. If Arrow can read the format, the module implements
`Format`. If only Spark reads the format, the module implements `Layout`, and `EngineFormat` makes a `Format` of the
layout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hive_bitmap.core.formats.blocks import COMPRESSED_TEXTS, FEW_ROWS
from hive_bitmap.core.lazy_modules import LazyModules

if TYPE_CHECKING:
    from hive_bitmap.core.formats.blocks import Blocks, Bounds, Layout
    from hive_bitmap.core.formats.key_values import KeyColumn

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
]


class Format(Protocol):
    """Operations on the files of one format.

    A `handle` is an open file, as returned by `open_file` of the same format. Handles are not sent to other processes.
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

        The result is empty if the columns of the file are found by position.
        """

    def by_name(self, handle: Any) -> bool:
        """Return whether keys of the file depend only on their own columns.

        If true, Spark reads the same keys from this file after other columns of the table change. The result is false
        if columns are found by position.
        """

    def column_bytes(self, handle: Any, columns: Sequence[KeyColumn]) -> npt.NDArray[np.int64]:
        """Estimate how many bytes columns take in each block.

        The estimate comes from the footer. The result is an int64 array with a number for each block, at least 1, in
        the order of `blocks`. Raises Undecodable.
        """

    def key_columns(self, handle: Any, block: int, columns: Sequence[KeyColumn]) -> pa.Table:
        """Return the columns of all rows of a block as keys.

        `block` is the position of the block in the file. The columns (see `key_values`) are in the given order, with
        the types of `key_values.arrow_type`; strings may be dictionary-encoded. Raises Undecodable unless the values
        are certainly the values that Spark reads.
        """

    def spark_only_columns(self, handle: Any, schema: Sequence[KeyColumn]) -> dict[str, str]:
        """Return the table columns that only Spark may read from this file.

        The result has the reason for each of these columns, by column name. `schema` has the columns of the table.
        `read_rows` must not be called with these columns, except for nested columns that `read_rows` can read according
        to their marks.
        """

    def nested_marks(self, handle: Any, schema: Sequence[KeyColumn]) -> list[str]:
        """Return the marks of the table's nested columns in this file.

        Marks say which parts of a column `read_rows` can read (see `core/nested_types`). `schema` has the columns of
        the table. Nested columns are also in `spark_only_columns`, so that readers without knowledge of marks leave
        nested columns to Spark.
        """

    def bounds(self, handle: Any, columns: Sequence[KeyColumn]) -> dict[str, Bounds]:
        """Return the bounds of columns in each block, by column name.

        Only integers, dates and timestamps have bounds. Columns that the file lacks or stores in another type are
        missing in the result, as are all other columns without certain bounds. Raises Undecodable.
        """

    def rehearse(self, handle: Any, schema: Sequence[KeyColumn]) -> None:
        """Read everything in the footer that queries will read later.

        `schema` has the columns of the table. A damaged footer may end the process that reads it with C++ libraries, so
        a build task reads it before any other process does. The parts of the footer for nested columns are left to
        `nested_marks`. Raises Undecodable.
        """

    def bytes_at_once(self, path: str, columns: Sequence[KeyColumn]) -> int:
        """Estimate how many bytes `read_rows` decodes at once.

        `columns` are the columns to read. The estimate holds for any selection of rows. Raises FileNotFoundError or
        Undecodable.
        """

    def read_rows(
        self,
        path: str,
        columns: Sequence[KeyColumn],
        selection: Sequence[tuple[int, npt.NDArray[np.int64] | None]],
    ) -> Iterator[pa.RecordBatch]:
        """Yield the selected rows of the file, with these columns.

        Rows are in file order. `selection` has pairs (position of a block in the file, numbers of its selected rows),
        ascending by block. The row numbers are 0-based inside the block and ascending; None stands for all rows. Raises
        FileNotFoundError, Undecodable or FileChanged when the first or a later batch is requested.
        """

    def read_together(
        self,
        files: Sequence[tuple[str, Sequence[tuple[int, npt.NDArray[np.int64] | None]]]],
        columns: Sequence[KeyColumn],
    ) -> pa.RecordBatch | None:
        """Return the selected rows of several files.

        `files` has paths with selections like that of `read_rows`. The rows are in the order of the files. Returns None
        if `read_rows` has to read each file instead, for example if more than FEW_ROWS rows are selected in all. Raises
        the same errors as `read_rows`.
        """


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """A file format of tables.

    The metastore identifies a file format by the class of the table's input format. The module `name` reads values with
    Arrow, or has the layout, if only Spark reads the values (`has_layout`). A table whose format has a layout is
    supported if its SerDe is one of `serdes`: these SerDes make exactly one row of each record. Session settings that
    change how Spark reads files of the format belong to `listings/serde.DOUBTFUL_SETTINGS`. Files with one of the
    suffixes `unsplit` are never split.
    """

    name: str
    input_format: str
    serdes: tuple[str, ...] = ()
    unsplit: tuple[str, ...] = ()

    @property
    def has_layout(self) -> bool:
        """Whether only Spark reads the values of the format."""
        return bool(self.serdes)


_HIVE, _HADOOP = "org.apache.hadoop.hive.", "org.apache.hadoop.mapred."
_SERDE, _HCATALOG = f"{_HIVE}serde2.", "org.apache.hive.hcatalog.data."
_LAZY_SIMPLE = f"{_SERDE}lazy.LazySimpleSerDe"
_TEXTS = (_LAZY_SIMPLE, f"{_SERDE}JsonSerDe", f"{_HCATALOG}JsonSerDe", f"{_SERDE}OpenCSVSerde", f"{_SERDE}RegexSerDe")
_COLUMNAR = (f"{_SERDE}columnar.ColumnarSerDe", f"{_SERDE}columnar.LazyBinaryColumnarSerDe")
_RECORDS = (_LAZY_SIMPLE, f"{_SERDE}lazybinary.LazyBinarySerDe")
# To add a file format, write its module and add a line here.
FILE_FORMATS = (
    FileFormat(name="parquet", input_format=f"{_HIVE}ql.io.parquet.MapredParquetInputFormat"),
    FileFormat(name="orc", input_format=f"{_HIVE}ql.io.orc.OrcInputFormat"),
    FileFormat(
        name="text",
        input_format=f"{_HADOOP}TextInputFormat",
        serdes=_TEXTS,
        unsplit=COMPRESSED_TEXTS,
    ),
    FileFormat(
        name="avro",
        input_format=f"{_HIVE}ql.io.avro.AvroContainerInputFormat",
        serdes=(f"{_SERDE}avro.AvroSerDe",),
    ),
    FileFormat(name="rcfile", input_format=f"{_HIVE}ql.io.RCFileInputFormat", serdes=_COLUMNAR),
    FileFormat(name="sequencefile", input_format=f"{_HADOOP}SequenceFileInputFormat", serdes=_RECORDS),
)
BY_INPUT_FORMAT: Mapping[str, FileFormat] = {format_.input_format: format_ for format_ in FILE_FORMATS}
UNSPLIT: Mapping[str, tuple[str, ...]] = {format_.name: format_.unsplit for format_ in FILE_FORMATS}


def _engine_format(name: str) -> Format:
    from hive_bitmap.core.formats.engine import EngineFormat

    return EngineFormat(name, LAYOUTS[name])


_MODULES = {format_.name: partial(import_module, f"{__name__}.{format_.name}") for format_ in FILE_FORMATS}
LAYOUTS: Mapping[str, Layout] = LazyModules(
    {format_.name: _MODULES[format_.name] for format_ in FILE_FORMATS if format_.has_layout}
)
FORMATS: Mapping[str, Format] = LazyModules(_MODULES | {name: partial(_engine_format, name) for name in LAYOUTS})
if TYPE_CHECKING:  # mypy checks that each module implements its protocol
    from hive_bitmap.core.formats import avro, orc, parquet, rcfile, sequencefile, text

    _READERS: tuple[Format, ...] = (orc, parquet)
    _LAYOUTS: tuple[Layout, ...] = (avro, rcfile, sequencefile, text)
