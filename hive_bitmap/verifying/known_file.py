"""A base file as `verify` finds it: whether it is still what was indexed, and lies as the manifest says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hive_bitmap.columns import Column
from hive_bitmap.errors import FileChanged, Undecodable
from hive_bitmap.formats import Format
from hive_bitmap.formats.blocks import Blocks
from hive_bitmap.index.fingerprint import Fingerprint
from hive_bitmap.index.table_schema import key_columns
from hive_bitmap.verifying.problems import Problems

COMPARED, STALE, DAMAGED = "compared", "stale", "damaged"


@dataclass(frozen=True)
class KnownFile:
    """A base file as the manifest has it, and whether a listing shows it unchanged (`fresh`).

    `indirect` are the columns, as the table names them, that only the engine reads as it should.
    """

    fingerprint: Fingerprint
    blocks: Blocks
    indirect: frozenset[str] | None  # None: the table's columns are others now, so there is nothing to compare it with
    fresh: bool


@dataclass
class BaseFile:
    """A base file in comparison; `blocks` are those it has now, or those of the manifest where it is not compared."""

    known: KnownFile
    blocks: Blocks
    state: str  # COMPARED; STALE: not the file that was indexed; DAMAGED: it, or its shard, cannot be read
    problems: Problems

    @property
    def path(self) -> str:
        return self.known.fingerprint.path

    @cached_property
    def filled(self) -> npt.NDArray[np.int64]:
        """The numbers of the blocks that hold rows."""
        return np.flatnonzero(self.blocks.rows)


def open_base(known: KnownFile, format: Format, schema: Sequence[Column], time_zone: str) -> BaseFile:
    """Look whether a file is still the one that was indexed, and whether its blocks lie where the manifest says.

    `schema` is all data columns of the table. Raises StoreError.
    """
    problems = Problems()
    if not (known.fresh and known.fingerprint.confirmed()):
        return BaseFile(known, known.blocks, STALE, problems)
    try:
        handle = format.open_file(known.fingerprint.path)
        blocks = format.blocks(handle)
        indirect = format.indirect_columns(handle, key_columns(schema, schema, time_zone))
    except (FileNotFoundError, FileChanged):
        return BaseFile(known, known.blocks, STALE, problems)
    except Undecodable as e:
        problems.add(f"it is indexed, but cannot be read as Spark reads it: {e}")
        return BaseFile(known, known.blocks, DAMAGED, problems)
    for what in ("offset", "length", "rows"):
        said, now = getattr(known.blocks, what).tolist(), getattr(blocks, what).tolist()
        if said != now:
            problems.add(f"the manifest says of its blocks: {what} {_short(said)}, but they have {_short(now)}")
    if known.indirect is not None and known.indirect != frozenset(indirect):
        problems.add(f"only Spark can read {sorted(indirect)}, but the manifest says {sorted(known.indirect)}")
    return BaseFile(known, blocks, COMPARED, problems)


def _short(numbers: Sequence[int]) -> str:
    return f"{list(numbers[:4])}{' ..' if len(numbers) > 4 else ''} ({len(numbers)})"
