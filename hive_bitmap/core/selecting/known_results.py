"""Results of lookups that were done before, so that what is planned and then executed is looked up once.

A result depends on the unit, which names shards that never change, and on the predicate: both together are its key. The
manifest says meanwhile, each time, which files the index knows as they are now.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

from hive_bitmap.core.index.lookup import SHARDS
from hive_bitmap.core.memory_budget import Cache
from hive_bitmap.core.predicates.nodes import Predicate, SparkLeaf, leaves_of
from hive_bitmap.core.selecting.lookup_units import IndexPart, LookupUnit
from hive_bitmap.core.selecting.select import LookupResult

KEY_BYTES = 16
_results: Cache[bytes, LookupResult] = Cache(SHARDS, lambda result: result.nbytes)


def known_result(unit: LookupUnit, predicate: Predicate, look_up: Callable[[], LookupResult]) -> LookupResult:
    """Return the result of a lookup, of which `look_up` is called unless it is known.

    A result of a damaged index is not kept, nor that of a condition which Spark evaluates: its text does not tell the
    settings on which its truth depends.
    """
    if any(isinstance(leaf, SparkLeaf) for leaf in leaves_of(predicate)):
        return look_up()
    key = _key(unit, predicate)
    known = _results.get(key)
    if known is not None:
        return known
    found = look_up()
    if not found.damaged:
        found.freeze()
        _results.put(key, found)
    return found


def _key(unit: LookupUnit, predicate: Predicate) -> bytes:
    """Return a digest of all that a result depends on; each text is preceded by its length, each array by its size."""
    digest = blake2b(digest_size=KEY_BYTES)
    texts = [repr(predicate), *unit.paths, *(text for name, part in unit.parts.items() for text in _texts(name, part))]
    arrays = [unit.file, unit.offset, unit.rows, *(part.files for part in unit.parts.values())]
    deleted = [text for path, rows in unit.deleted.items() for text in (path, rows.id)]
    digest.update(repr((len(unit.paths), len(unit.parts), [len(array) for array in arrays])).encode())
    digest.update(repr((texts, deleted)).encode("utf-8", "surrogatepass"))
    for array in arrays:
        digest.update(array.tobytes())
    return digest.digest()


def _texts(column: str, part: IndexPart) -> tuple[str, ...]:
    return column, part.key.name, str(part.key.type), part.encoding, repr(part.shards)
