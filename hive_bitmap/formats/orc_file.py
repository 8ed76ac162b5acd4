"""An open ORC file, and its columns found as Spark finds them.

By name, without case; by position where every name of the file begins with `_col`, as old versions of Hive wrote them;
a missing one is NULL. That is `requestedColumnIds` of
https://github.com/apache/spark/blob/v4.0.0/sql/core/src/main/scala/org/apache/spark/sql/execution/datasources/orc/OrcUtils.scala.

The footer is read by pyorc, which knows where the stripes lie, the values by pyarrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyorc
from pyarrow import orc

from hive_bitmap import stores
from hive_bitmap.errors import Undecodable
from hive_bitmap.formats.key_values import KeyColumn, decoding
from hive_bitmap.formats.orc_types import Conversion, reading

# Spark's note (in OrcUtils, too) on a column that ORC cannot tell it of: a timestamp_ntz is a bigint of microseconds.
_CATALYST_TYPE = "spark.sql.catalyst.type"


@dataclass(frozen=True)
class OrcHandle:
    """An open file: its path, its bytes, its reader, and its top-level columns with their types, in Spark's words if
    Spark noted them, else in ORC's.
    """

    path: str
    source: pa.NativeFile
    file: orc.ORCFile
    columns: tuple[KeyColumn, ...]

    @cached_property
    def by_name(self) -> dict[str, list[KeyColumn]]:
        """The columns by the lower case of their names."""
        found: dict[str, list[KeyColumn]] = {}
        for column in self.columns:
            found.setdefault(column.name.lower(), []).append(column)
        return found

    @cached_property
    def positional(self) -> bool:
        """Whether the columns are found by position; a file without columns is not."""
        return all(column.name.startswith("_col") for column in self.columns)


def open_file(path: str) -> OrcHandle:
    """Open a file and read its footer; raises FileNotFoundError, Undecodable (damaged, encrypted)."""
    source = stores.open_input(path)
    with decoding("footer"):
        file = orc.ORCFile(source)
        schema = root(footer(source))
        columns = tuple(
            KeyColumn(name, kind.attributes.get(_CATALYST_TYPE, str(kind))) for name, kind in schema.fields.items()
        )
        return OrcHandle(path, source, file, columns)


def footer(source: pa.NativeFile) -> pyorc.Reader:
    """What pyorc knows of the file: schema, stripes, statistics; raises Undecodable."""
    try:
        return pyorc.Reader(source)
    except pyorc.ParseError as error:
        raise Undecodable(f"footer: {error}") from error


def root(opened: pyorc.Reader) -> pyorc.Struct:
    """The struct of the file's columns; raises Undecodable where a row is no struct."""
    if not isinstance(opened.schema, pyorc.Struct):
        raise Undecodable(f"a row of the file is {opened.schema}, not a struct")
    return opened.schema


def find(handle: OrcHandle, column: KeyColumn) -> tuple[str, Conversion] | None:
    """The file's name for the column and how to read it, None where the file lacks it; raises Undecodable."""
    if handle.positional and handle.columns:
        if column.position is None:
            raise Undecodable(f"column {column.name!r} has no name in the file, and its position is not known")
        stored = list(handle.columns[column.position : column.position + 1])
    else:
        stored = handle.by_name.get(column.name.lower(), [])
    if not stored:
        return None
    if len(stored) > 1:
        raise Undecodable(f"column {column.name!r} is ambiguous: the file has {', '.join(s.name for s in stored)}")
    name = stored[0].name
    if any(name.startswith(f"{other.name}.") for other in handle.columns):
        raise Undecodable(f"column {name!r} cannot be told from a nested one")  # pyarrow selects by dotted paths
    return name, reading(stored[0], column)
