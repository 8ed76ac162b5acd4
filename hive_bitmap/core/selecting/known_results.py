"""Cache the results of lookups.

A query that is planned and then executed is looked up once. A result depends on the unit, which names shards that never
change, and on the predicate: both together are its cache key. Which files are fresh is still read from the manifest
each time.
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
    """Return a text that identifies a predicate.

    None if Spark evaluates a leaf of it, because the text does not include Spark's settings.
    """
    return None if any(isinstance(leaf, SparkLeaf) for leaf in leaves_of(predicate)) else repr(predicate)


def known_result(unit: LookupUnit, text: str | None, look_up: Callable[[], LookupResult]) -> LookupResult:
    """Return the result of a lookup from the cache, or call `look_up`.

    `text` is the predicate's `text_of`. Nothing is cached if it is None, nor is the result of a damaged index.
    """
    if text is None:
        return look_up()
    key = _key(unit, text)
    cached = _results.get(key)
    if cached is not None:
        return cached
    result = look_up()
    if not result.damaged:
        result.freeze()
        _results.put(key, result)
    return result


def _key(unit: LookupUnit, text: str) -> bytes:
    """Return a digest of everything that a result depends on.

    The sizes come first, so that no two units have the same bytes.
    """
    arrays = [unit.file, unit.offset, unit.rows, *(part.files for part in unit.parts.values())]
    parts = [(column, _facts(part)) for column, part in unit.parts.items()]
    deleted = [(path, rows.id) for path, rows in unit.deleted.items()]
    description = repr((unit.paths, parts, deleted))
    digest = blake2b(digest_size=KEY_BYTES)
    digest.update(repr((len(text), len(description), [len(array) for array in arrays])).encode())
    for content in (text, description):
        digest.update(content.encode("utf-8", "surrogatepass"))
    for array in arrays:
        digest.update(array.tobytes())
    return digest.digest()


def _facts(part: IndexPart) -> tuple[object, ...]:
    return part.key.name, str(part.key.type), part.encoding, part.shards
