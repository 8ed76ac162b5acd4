"""Lookups for tests: what a manifest says of files, given by file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from hive_bitmap.core.index.fingerprint import Fingerprint
from hive_bitmap.core.index.manifest import FILES
from hive_bitmap.core.predicates.nodes import TRUE, Predicate
from hive_bitmap.core.selecting.candidates import DESCRIBED, Lookup
from hive_bitmap.core.selecting.lookup_units import LookupUnit

_SCHEMA = pa.schema([FILES.field(name) for name in DESCRIBED])
_ANY = Fingerprint(path="", size=0, mtime_ms=0, etag="", tail_crc32=0)


def lookup_of(
    unit: LookupUnit,
    predicate: Predicate = TRUE,
    *,
    fingerprints: Sequence[Fingerprint] | None = None,
    schema_crc: Sequence[int] | None = None,
    foreign: Sequence[frozenset[str] | None] | None = None,
    **more: Any,
) -> Lookup:
    """The lookup of a unit's files; what is not given is the same for all of them."""
    count = len(unit.paths)
    prints = (_ANY,) * count if fingerprints is None else fingerprints
    rows = [
        {
            "size": one.size,
            "mtime_ms": one.mtime_ms,
            "etag": one.etag,
            "tail_crc32": one.tail_crc32,
            "schema_crc": crc,
            "foreign": None if names is None else sorted(names),
        }
        for one, crc, names in zip(prints, schema_crc or (1,) * count, foreign or (None,) * count, strict=True)
    ]
    fields: dict[str, Any] = {"partitions": (0,) * count, "spark_only": (frozenset[str](),) * count}
    fields["numbers"] = np.arange(count)
    return Lookup(unit=unit, predicate=predicate, described=pa.Table.from_pylist(rows, _SCHEMA), **(fields | more))


def with_column(lookup: Lookup, name: str, values: Iterable[Any]) -> Lookup:
    """The same lookup with other values in one of the columns DESCRIBED."""
    at = lookup.described.schema.get_field_index(name)
    array = pa.array(list(values), FILES.field(name).type)
    return replace(lookup, described=lookup.described.set_column(at, FILES.field(name), array))
