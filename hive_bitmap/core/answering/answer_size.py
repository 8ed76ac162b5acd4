"""Limit the size of an answer from the index alone.

The driver holds the keys of an answer, as rows of the JVM. The number of keys is known only after counting. So planning
estimates the number from the manifests and from a sample, which is one or two row groups of the index. Counting
(`tally`) stops when the keys exceed the limit. `remember_too_large` records this, and Spark answers the query from then
on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hive_bitmap.core.index import lookup as shards
from hive_bitmap.core.memory_budget import Cache
from hive_bitmap.core.predicates.nodes import columns_of
from hive_bitmap.core.selecting.candidates import Lookup, LookupResults
from hive_bitmap.core.selecting.lookup_units import IndexPart
from hive_bitmap.errors import CorruptIndex, Unsupported

ROW_BYTES = 128  # memory of a row in the JVM, without its values; the same as in AnswerSize.java
FEW_ROWS = 4096  # answers from at most so many rows are not estimated; counting still raises TooLarge
KeySets = Sequence[Sequence[str]]  # names in lower case
too_large: Cache[tuple[Any, ...], str] = Cache("what was too large", len)  # reasons; `driver_rows` has some, too


class TooLarge(Unsupported):
    """An answer from the index alone that needs too much memory.

    The answer would take more of the driver's memory than `hive_bitmap.answer_bytes` allows.
    """


def nbytes(keys: pa.Table) -> int:
    """Return the size of an answer in bytes, to compare with its limit.

    `keys` has a row for each key, with the key's count. ROW_BYTES are added for each row of `keys`.
    """
    return int(keys.nbytes) + ROW_BYTES * keys.num_rows


def driver_bytes(keys: float, width: float) -> float:
    """Estimate the bytes of an answer's keys in the driver.

    `keys` is the number of keys, `width` the mean size of a key in bytes.
    """
    return keys * (ROW_BYTES + width)


def estimated_keys(results: LookupResults, key_sets: KeySets, limit: int) -> int:
    """Return a generous estimate of the number of distinct keys in the answer.

    `results` are the results of looking up the base files. Each of `key_sets` is a set of key columns; the estimates
    for the sets are added up, and an empty set counts nothing. The estimate for a set is the number of selected rows,
    if that is at most FEW_ROWS. Otherwise it is the estimated size of the keys divided by ROW_BYTES, so long keys make
    it larger. Raises TooLarge if the estimated size of all keys exceeds `limit` bytes, or if the answer is recorded as
    too large (`remember_too_large`). From at most FEW_ROWS selected rows, TooLarge is not raised.
    """
    selected = sum(int(result.counts.sum()) for result in results.results)
    if not any(key_sets) or selected <= FEW_ROWS:
        return min(selected, FEW_ROWS) * sum(map(bool, key_sets))
    if reason := too_large.get(_key(results.lookups, key_sets, limit)):
        raise TooLarge(reason)
    size = sum(_estimate(results.lookups, keys, selected) for keys in key_sets if keys)
    if size > limit:
        raise TooLarge(f"its keys take some {size >> 20:,} MB in the driver, more than hive_bitmap.answer_bytes")
    return size // ROW_BYTES


def remember_too_large(lookups: Sequence[Lookup], key_sets: KeySets, limit: int) -> None:
    """Record that an answer is too large, so that `estimated_keys` raises TooLarge.

    The answer to `lookups` has turned out to take more than `limit` bytes for the distinct keys of the columns
    `key_sets`. The record is for this limit, these predicates and these shards, so it ends when the index changes.
    """
    reason = f"its keys take more than hive_bitmap.answer_bytes in the driver, {limit:,} bytes here"
    too_large.put(_key(lookups, key_sets, limit), reason)


def _key(lookups: Sequence[Lookup], key_sets: KeySets, limit: int) -> tuple[Any, ...]:
    names = {key for keys in key_sets for key in keys}
    parts = (lookup.unit.parts[key] for lookup in lookups for key in names if key in lookup.unit.parts)
    sets = tuple(tuple(sorted(keys)) for keys in key_sets)
    predicates = frozenset(lookup.predicate for lookup in lookups)
    return frozenset(path for part in parts for path, _ in part.shards), sets, predicates, limit


def distinct_keys(lookups: Sequence[Lookup], keys: Sequence[str]) -> float:
    """Estimate the number of distinct keys in the files of the lookups.

    `keys` are the key columns (in lower case). The predicates of the lookups are ignored. If several indexes serve some
    of the columns, the largest estimate is returned; 0 if no index does. Raises CorruptIndex.
    """
    return max((_keys_of(parts, keys)[0] for parts in _by_index(lookups, keys).values()), default=0.0)


def _estimate(lookups: Sequence[Lookup], keys: Sequence[str], selected: int) -> int:
    """Estimate the bytes of the distinct keys of the selected rows.

    `keys` are the key columns (in lower case), and `selected` is the number of selected rows. A damaged index is
    ignored: Spark reads its files whole, so the index gives no keys.
    """
    sizes = [0]
    for parts in _by_index(lookups, keys).values():
        try:
            sizes.append(_bytes_of(parts, keys, selected))
        except CorruptIndex:
            continue  # its files are read whole
    return max(sizes)


def _by_index(lookups: Sequence[Lookup], keys: Sequence[str]) -> dict[str, list[tuple[Lookup, IndexPart]]]:
    """Group the index parts of lookups by the name of their index.

    Only the parts that serve one of the columns `keys` (in lower case) are returned, each with its lookup. Parts
    without shards are left out.
    """
    by_index: dict[str, list[tuple[Lookup, IndexPart]]] = {}
    for lookup in lookups:
        key_parts = {part.index: part for key in keys if (part := lookup.unit.parts.get(key)) and part.shards}
        for index, part in key_parts.items():
            by_index.setdefault(index, []).append((lookup, part))
    return by_index


def _bytes_of(parts: Sequence[tuple[Lookup, IndexPart]], keys: Sequence[str], selected: int) -> int:
    """Estimate the bytes of an index's distinct keys in the selected rows.

    `parts` are the parts of the index, with their lookups. `keys` are the key columns. `selected` is the number of
    selected rows.
    """
    count, width = _keys_of(parts, keys)
    rows = sum(int(lookup.unit.rows.sum()) for lookup, _ in parts)
    tested = {column.lower() for lookup, _ in parts for column in columns_of(lookup.predicate)}
    if tested & set(keys):
        count *= selected / max(rows, 1)
    return int(driver_bytes(min(count, selected), width))


def _keys_of(parts: Sequence[tuple[Lookup, IndexPart]], keys: Sequence[str]) -> tuple[float, float]:
    """Estimate the number of an index's distinct keys, and their mean size in bytes.

    `parts` are the parts of the index, with their lookups. `keys` are the key columns. The estimate is extrapolated
    from one row group of each of the two largest parts.
    """
    largest = sorted(parts, key=lambda pair: -pair[1].entries)[:2]
    samples = [_sample(lookup, part, keys) for lookup, part in largest]
    share, width = (max(values) for values in zip(*samples, strict=True))
    of_each = [part.entries * share for _, part in parts]
    return sum(of_each) if _are_apart([part for _, part in largest]) else max(of_each), width


def _sample(lookup: Lookup, part: IndexPart, keys: Sequence[str]) -> tuple[float, float]:
    """Return the number of keys per index row, and their mean size in bytes.

    The number is 1 if no two rows have the same key. Only the first row group of the part is read. `keys` are the key
    columns.
    """
    fields = [other.key for key in keys if (other := lookup.unit.parts.get(key)) and other.index == part.index]
    for values, _ in shards.all_entries(*part.shards[0], fields, lambda stats: True, part.kind):
        return _runs(values) / max(len(values[0]), 1), sum(map(_width, values))
    return 0.0, 0.0


def _runs(columns: Sequence[pa.DictionaryArray]) -> int:
    """Count the runs of consecutive rows that are equal in all columns."""
    changed = np.zeros(max(len(columns[0]) - 1, 0), bool)
    for column in columns:
        codes = column.indices.to_numpy(zero_copy_only=False)
        changed |= codes[1:] != codes[:-1]
    return int(changed.sum()) + 1


def _width(column: pa.DictionaryArray) -> float:
    return float(column.dictionary.nbytes) / max(len(column.dictionary), 1)


def _are_apart(parts: Sequence[IndexPart]) -> bool:
    """Return whether the first shards of two parts certainly share no keys.

    The shards share no keys if the ranges of keys in their statistics do not overlap. If there is only one part, the
    result is true.
    """
    ranges = [shards.key_range(*part.shards[0], part.key.name) for part in parts]
    if len(ranges) < 2:
        return True
    first, second = ranges
    return None not in (*first, *second) and (first[1] < second[0] or second[1] < first[0])
