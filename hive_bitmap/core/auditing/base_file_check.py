"""Check one base file for `verify`.

The file must be unchanged since it was indexed, and the manifest must describe it correctly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hive_bitmap.core.auditing.compare import Problems
from hive_bitmap.core.formats.blocks import Blocks
from hive_bitmap.core.index.fingerprint import Fingerprint
from hive_bitmap.core.index.manifest import bounded_column
from hive_bitmap.core.indexing.staged_values import ReadOptions
from hive_bitmap.errors import FileChanged, Undecodable

COMPARED, STALE, DAMAGED = "compared", "stale", "damaged"


@dataclass(frozen=True)
class RecordedFile:
    """A base file according to the manifest.

    `fresh` says whether the file is unchanged according to a listing. `spark_only` are the names of the columns whose
    values only Spark reads correctly. `nested` are the marks of the nested columns (`core/nested_types`). `bounds` maps
    the names of columns (`manifest.bounded_column`) to bounds in the form of `Bounds.numbers`.

    If the columns of the table have changed since the file was indexed, `spark_only` and `nested` are None, and
    `bounds` is empty. If an older build did not record marks, `nested` is None; if it did not record bounds, `bounds`
    is empty. Values that are None or missing are not compared with the file.
    """

    fingerprint: Fingerprint
    blocks: Blocks
    spark_only: frozenset[str] | None
    fresh: bool
    nested: frozenset[str] | None = None
    bounds: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass
class BaseFile:
    """A base file during the comparison.

    `blocks` are the blocks of the file or, if `open_base` has not read them, the blocks in the manifest. `state` is
    COMPARED, STALE (the file has changed since it was indexed), or DAMAGED (the file or its shard cannot be read).
    """

    indexed_file: RecordedFile
    blocks: Blocks
    state: str
    problems: Problems

    @property
    def path(self) -> str:
        return self.indexed_file.fingerprint.path

    @cached_property
    def filled(self) -> npt.NDArray[np.int64]:
        """The positions in `blocks` of the blocks that have rows."""
        return np.flatnonzero(self.blocks.rows)


def recorded_blocks(row: Mapping[str, Any]) -> Blocks:
    """Return the blocks of a base file from its manifest row.

    The row has schema FILES. Manifests of older builds do not record `Blocks.start`, the position of each block's first
    byte. For such a manifest, `start` is set to `Blocks.offset`; `verify` does not compare `start`.
    """
    starts = row["offsets"] if row["starts"] is None else row["starts"]
    return Blocks(*(np.array(column, np.int64) for column in (row["offsets"], row["lengths"], row["rows"], starts)))


def recorded_bounds(row: Mapping[str, Any]) -> dict[str, Sequence[int]]:
    """Return the bounds in a manifest row of schema FILES.

    The result has the form of `RecordedFile.bounds`.
    """
    names, numbers, count = row["bounded"] or (), row["bounds"] or (), 3 * len(row["rows"])
    return {name: numbers[at * count : (at + 1) * count] for at, name in enumerate(names)}


def open_base(indexed_file: RecordedFile, options: ReadOptions) -> BaseFile:
    """Open a base file and compare its blocks with the manifest.

    The `state` of the result is STALE if the file has changed since it was indexed, DAMAGED if the file cannot be
    decoded, and COMPARED otherwise. Differences from the manifest are added to the `problems` of the result, and do not
    change the state. Raises StoreError.
    """
    problems = Problems()
    if not (indexed_file.fresh and indexed_file.fingerprint.confirmed()):
        return BaseFile(indexed_file, indexed_file.blocks, STALE, problems)
    format = options.file_format()
    try:
        handle = format.open_file(indexed_file.fingerprint.path)
        blocks = format.blocks(handle)
        columns = options.key_columns(options.schema)
        spark_only = format.spark_only_columns(handle, columns)
        nested = frozenset(format.nested_marks(handle, columns))
        named = {column.name: bounded_column(column.name, column.type) for column in columns}
        bounded = [column for column in columns if named[column.name] in indexed_file.bounds]
        bounds = {named[name]: of_column.numbers.tolist() for name, of_column in format.bounds(handle, bounded).items()}
    except (FileNotFoundError, FileChanged):
        return BaseFile(indexed_file, indexed_file.blocks, STALE, problems)
    except Undecodable as e:
        problems.add(f"it is indexed, but cannot be read as Spark reads it: {e}")
        return BaseFile(indexed_file, indexed_file.blocks, DAMAGED, problems)
    for what in ("offset", "length", "rows"):
        recorded, actual = getattr(indexed_file.blocks, what).tolist(), getattr(blocks, what).tolist()
        if recorded != actual:
            problems.add(f"the manifest says of its blocks: {what} {_short(recorded)}, but they have {_short(actual)}")
    if indexed_file.spark_only is not None and not indexed_file.spark_only >= frozenset(spark_only):
        problems.add(
            f"only Spark can read {sorted(spark_only)}, but the manifest says {sorted(indexed_file.spark_only)}"
        )
    if indexed_file.nested is not None and indexed_file.nested != nested:
        problems.add(f"its nested columns are {sorted(nested)}, but the manifest says {sorted(indexed_file.nested)}")
    for name, recorded in indexed_file.bounds.items():
        if bounds.get(name) != list(recorded):
            actual = _short(bounds[name]) if name in bounds else "none"
            problems.add(f"the manifest says of column {name}: bounds {_short(recorded)}, but it has {actual}")
    return BaseFile(indexed_file, blocks, COMPARED, problems)


def _short(numbers: Sequence[int]) -> str:
    return f"{list(numbers[:4])}{' ..' if len(numbers) > 4 else ''} ({len(numbers)})"
