"""Whether an answer from the index alone is small enough: the driver holds its keys, as rows of the JVM.

How many keys there are is known when they are counted, and not before. So planning estimates it, from the sizes in the
manifests and, if these leave it open, from a row group of the index. Counting adds up what it has (`tally`) and stops
beyond the limit; that is remembered, and the next plan is Spark's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hive_bitmap.core.index import lookup as shards
from hive_bitmap.core.memory_budget import Cache
from hive_bitmap.core.predicates.nodes import Predicate, columns_of
from hive_bitmap.core.selecting.candidates import Lookup, LookupResults
from hive_bitmap.core.selecting.lookup_units import IndexPart
from hive_bitmap.errors import CorruptIndex, Unsupported

ROW_BYTES = 128  # of the objects that hold a row in the JVM, besides its values; the same as in AnswerSize.java


class _Sample(NamedTuple):
    """Of the first rows of a shard: keys for each row (1 if no two rows have the same one), and bytes of a key."""

    share: float
    width: float


FEW_ROWS = 4096  # so many keys are small enough, whatever they are: counting finds out if they are not
KeySets = Sequence[Sequence[str]]  # names in lower case
_Key = tuple[frozenset[str], tuple[tuple[str, ...], ...], frozenset[Predicate], int]
_too_large: Cache[_Key, str] = Cache("answers that were too large", len)
_samples: Cache[tuple[str, tuple[str, ...]], _Sample] = Cache("samples of keys", lambda sample: 0)


class TooLarge(Unsupported):
    """An answer from the index alone would take more of the driver's memory than `hive_bitmap.answer_bytes`."""


def nbytes(keys: pa.Table) -> int:
    """Return the bytes of keys and counts as the limit counts them."""
    return int(keys.nbytes) + ROW_BYTES * keys.num_rows


def driver_bytes(keys: float, width: float) -> float:
    """Estimate the bytes that so many keys of an answer, of `width` bytes each, take in the driver."""
    return keys * (ROW_BYTES + width)


def require_small(results: LookupResults, key_sets: KeySets, limit: int) -> int:
    """Return about how many keys of all these sets the rows have that were looked up, or more if that is few.

    Raise TooLarge if they are too many.
    """
    selected = sum(int(found.counts.sum()) for found in results.results)
    if not any(key_sets) or selected <= FEW_ROWS:
        return min(selected, FEW_ROWS) * sum(map(bool, key_sets))
    if reason := _too_large.get(_key(results.lookups, key_sets, limit)):
        raise TooLarge(reason)
    size = sum(_estimate(results.lookups, keys, selected) for keys in key_sets if keys)
    if size > limit:
        raise TooLarge(f"its keys take some {size >> 20:,} MB in the driver, more than hive_bitmap.answer_bytes")
    return size // ROW_BYTES


def remember_too_large(lookups: Sequence[Lookup], key_sets: KeySets, limit: int) -> None:
    """Have `require_small` refuse these keys from now on, as long as the index stays as it is."""
    reason = f"its keys take more than hive_bitmap.answer_bytes in the driver, {limit:,} bytes here"
    _too_large.put(_key(lookups, key_sets, limit), reason)


def _key(lookups: Sequence[Lookup], key_sets: KeySets, limit: int) -> _Key:
    names = {key for keys in key_sets for key in keys}
    parts = (lookup.unit.parts[key] for lookup in lookups for key in names if key in lookup.unit.parts)
    sets = tuple(tuple(sorted(keys)) for keys in key_sets)
    predicates = frozenset(lookup.predicate for lookup in lookups)
    return frozenset(path for part in parts for path, _ in part.shards), sets, predicates, limit


def _estimate(lookups: Sequence[Lookup], keys: Sequence[str], selected: int) -> int:
    """Return about how many bytes the keys of the selected rows take; 0 if an index is damaged."""
    sizes = [0]
    by_index: dict[str, list[tuple[Lookup, IndexPart]]] = {}
    for lookup in lookups:
        known = {part.index: part for key in keys if (part := lookup.unit.parts.get(key)) and part.shards}
        for index, part in known.items():
            by_index.setdefault(index, []).append((lookup, part))
    for parts in by_index.values():
        try:
            sizes.append(_bytes_of(parts, keys, selected))
        except CorruptIndex:
            continue  # its files are read whole
    return max(sizes)


def _bytes_of(parts: Sequence[tuple[Lookup, IndexPart]], keys: Sequence[str], selected: int) -> int:
    """Return about how many bytes the keys of one index take, by the first row group of its largest shards."""
    largest = sorted(parts, key=lambda one: -one[1].entries)[:2]
    samples = [_sample(lookup, part, keys) for lookup, part in largest]
    share, width = (max(values) for values in zip(*samples, strict=True))
    of_each = [part.entries * share for _, part in parts]
    found = sum(of_each) if _are_apart([part for _, part in largest]) else max(of_each)
    rows = sum(int(lookup.unit.rows.sum()) for lookup, _ in parts)
    tested = {column.lower() for lookup, _ in parts for column in columns_of(lookup.predicate)}
    if tested & set(keys):
        found *= selected / max(rows, 1)
    return int(driver_bytes(min(found, selected), width))


def _sample(lookup: Lookup, part: IndexPart, keys: Sequence[str]) -> _Sample:
    fields = [one.key for key in keys if (one := lookup.unit.parts.get(key)) and one.index == part.index]
    path, size = part.shards[0]

    def read() -> _Sample:
        for values, _ in shards.all_entries(path, size, fields, lambda stats: True):
            return _Sample(_runs(values) / max(len(values[0]), 1), sum(map(_width, values)))
        return _Sample(0.0, 0.0)

    return _samples.of((path, tuple(field.name for field in fields)), read)


def _runs(columns: Sequence[pa.DictionaryArray]) -> int:
    """Return how many runs of equal rows these columns have together."""
    changed = np.zeros(max(len(columns[0]) - 1, 0), bool)
    for column in columns:
        codes = column.indices.to_numpy(zero_copy_only=False)
        changed |= codes[1:] != codes[:-1]
    return int(changed.sum()) + 1


def _width(column: pa.DictionaryArray) -> float:
    return float(column.dictionary.nbytes) / max(len(column.dictionary), 1)


def _are_apart(parts: Sequence[IndexPart]) -> bool:
    """Whether the keys of one or two shards do not overlap, by their statistics, as in a table that is sorted."""
    ranges = [shards.key_range(*part.shards[0], part.key.name) for part in parts]
    if len(ranges) < 2:
        return True
    first, second = ranges
    return None not in (*first, *second) and (first[1] < second[0] or second[1] < first[0])
