"""Open ORC files, and find columns by Spark's rules.

Columns are found by name, ignoring case, or by position if every name in the file begins with `_col`, as old versions
of Hive wrote them. A missing column is NULL. These are the rules of `requestedColumnIds` in
https://github.com/apache/spark/blob/v4.0.0/sql/core/src/main/scala/org/apache/spark/sql/execution/datasources/orc/OrcUtils.scala.

pyorc reads the footer, because it gives the positions of the stripes; pyarrow reads the values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyorc
from pyarrow import orc

from hive_bitmap.core import stores
from hive_bitmap.core.formats.key_values import KeyColumn, decoding, has_plain_name
from hive_bitmap.core.formats.orc_tail import OrcTail, require_plain_orc
from hive_bitmap.core.formats.orc_types import Conversion, conversion_for
from hive_bitmap.errors import Undecodable

# Attribute with which Spark marks the types that ORC lacks (also in OrcUtils): a timestamp_ntz is stored as bigint.
_CATALYST_TYPE = "spark.sql.catalyst.type"
_ICEBERG_ID = "iceberg.id"  # attribute in which Iceberg keeps the id of a column


@dataclass(frozen=True)
class OrcHandle:
    """An open file, with its tail.

    It has the path, the content, a reader, and the top-level columns. The types of `columns` are Spark types if Spark
    wrote them to the file, else ORC types. Columns that Iceberg wrote have ids.
    """

    path: str
    source: pa.NativeFile
    file: orc.ORCFile
    columns: tuple[KeyColumn, ...]
    tail: OrcTail

    @cached_property
    def by_name(self) -> dict[str, list[KeyColumn]]:
        """The columns by their names in lower case."""
        by_lower_name: dict[str, list[KeyColumn]] = {}
        for column in self.columns:
            by_lower_name.setdefault(column.name.lower(), []).append(column)
        return by_lower_name

    @cached_property
    def positional(self) -> bool:
        """Whether the columns are found by position.

        It is false for a file without columns.
        """
        return bool(self.columns) and all(column.name.startswith("_col") for column in self.columns)


def open_file(path: str) -> OrcHandle:
    """Open a file and read its footer.

    Raises FileNotFoundError, or Undecodable for a damaged or encrypted file.
    """
    source = stores.open_input(path)
    with decoding("its footer"):
        tail = require_plain_orc(source)
        file = orc.ORCFile(source)
        schema = root(footer(source))
        _require_plain_names(schema)
        columns = tuple(
            KeyColumn(name, kind.attributes.get(_CATALYST_TYPE, str(kind)), field_id=_id(kind.attributes))
            for name, kind in schema.fields.items()
        )
        return OrcHandle(path, source, file, columns, tail)


def footer(source: pa.NativeFile) -> pyorc.Reader:
    """Return pyorc's reader of the file.

    It has the file's schema, stripes and statistics. Raises Undecodable.
    """
    try:
        return pyorc.Reader(source)
    except pyorc.ParseError as error:
        raise Undecodable(f"its footer cannot be decoded: {error}") from error


def root(opened: pyorc.Reader) -> pyorc.Struct:
    """Return the struct of the file's columns.

    Raises Undecodable if a row is not a struct.
    """
    if not isinstance(opened.schema, pyorc.Struct):
        raise Undecodable(f"a row of the file is {opened.schema}, not a struct")
    return opened.schema


def statistics(opened: pyorc.Reader, name: str) -> Mapping[str, Any]:
    """Return the statistics of a top-level column.

    Raises Undecodable for values that Python cannot hold.
    """
    try:
        figures: Mapping[str, Any] = opened[root(opened).fields[name].column_id].statistics
    except (pyorc.ParseError, ValueError, OverflowError, LookupError, TypeError) as error:
        raise Undecodable(f"the statistics of column {name!r} cannot be decoded: {error}") from error
    return figures


def _require_plain_names(kind: pyorc.TypeDescription) -> None:
    """Require that Spark finds all columns and fields by name.

    Spark writes the columns that it requests as the text of a type, in which it does not escape a backtick. All columns
    of the text may then be wrong. Raises Undecodable if a name of the file, also inside of a column, may be misread.
    """
    fields = kind.fields if isinstance(kind, pyorc.Struct) else {}
    for name in fields:
        if not has_plain_name(name):
            raise Undecodable(f"only Spark's own reader can tell what it reads for a column named {name!r}")
    inner = [getattr(kind, part, None) for part in ("type", "key", "value")]
    for part in (*fields.values(), *inner, *getattr(kind, "cont_types", ())):
        if isinstance(part, pyorc.TypeDescription):
            _require_plain_names(part)


def _id(attributes: Mapping[str, str]) -> int | None:
    """Return the id that Iceberg gave to a column of the file."""
    text = attributes.get(_ICEBERG_ID, "")
    return int(text) if text.isdecimal() else None


def find(handle: OrcHandle, column: KeyColumn) -> tuple[str, Conversion] | None:
    """Return a column's name in the file and how to read it.

    Returns None if the file lacks the column. Raises Undecodable.
    """
    if not has_plain_name(column.name):
        raise Undecodable(f"only Spark's own reader can tell what it reads for a column named {column.name!r}")
    if column.field_id is not None:
        if any(candidate.field_id is None for candidate in handle.columns):
            raise Undecodable(f"column {column.name!r} has an id in the table, and columns of the file have none")
        stored = [candidate for candidate in handle.columns if candidate.field_id == column.field_id]
    elif handle.positional:
        if column.position is None:
            raise Undecodable(f"column {column.name!r} has no name in the file, and its position is not known")
        stored = list(handle.columns[column.position : column.position + 1])
    else:
        stored = handle.by_name.get(column.name.lower(), [])
    if not stored:
        return None
    if len(stored) > 1:
        raise Undecodable(
            f"column {column.name!r} is ambiguous: the file has {', '.join(candidate.name for candidate in stored)}"
        )
    name = stored[0].name
    if any(name.startswith(f"{other.name}.") for other in handle.columns):
        raise Undecodable(f"column {name!r} cannot be told from a nested one")  # pyarrow selects by dotted paths
    return name, conversion_for(stored[0], column)
