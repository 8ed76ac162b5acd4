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
OBJECT_BYTES = 256  # of a result, besides its arrays
_results: Cache[bytes, LookupResult] = Cache(SHARDS, lambda result: result.nbytes + OBJECT_BYTES)


def text_of(predicate: Predicate) -> str | None:
    """Return what tells a predicate from others; None if Spark evaluates a leaf of it, whose settings are not told."""
    return None if any(isinstance(leaf, SparkLeaf) for leaf in leaves_of(predicate)) else repr(predicate)


def known_result(unit: LookupUnit, text: str | None, look_up: Callable[[], LookupResult]) -> LookupResult:
    """Return the result of a lookup, of which `look_up` is called unless it is known.

    `text` is that of the predicate; nothing is kept if it is None, nor the result of a damaged index.
    """
    if text is None:
        return look_up()
    key = _key(unit, text)
    known = _results.get(key)
    if known is not None:
        return known
    found = look_up()
    if not found.damaged:
        found.freeze()
        _results.put(key, found)
    return found


def _key(unit: LookupUnit, text: str) -> bytes:
    """Return a digest of all that a result depends on; first the sizes, so that no two units have the same bytes."""
    arrays = [unit.file, unit.offset, unit.rows, *(part.files for part in unit.parts.values())]
    parts = [(column, _facts(part)) for column, part in unit.parts.items()]
    deleted = [(path, rows.id) for path, rows in unit.deleted.items()]
    named = repr((unit.paths, parts, deleted))
    digest = blake2b(digest_size=KEY_BYTES)
    digest.update(repr((len(text), len(named), [len(array) for array in arrays])).encode())
    for some in (text, named):
        digest.update(some.encode("utf-8", "surrogatepass"))
    for array in arrays:
        digest.update(array.tobytes())
    return digest.digest()


def _facts(part: IndexPart) -> tuple[object, ...]:
    return part.key.name, str(part.key.type), part.encoding, part.shards
