"""Record the last refresh of an index after writes.

The record is a small file in the root of the index, for anyone who inspects the index.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from threading import Lock

from cachetools import LRUCache

from hive_bitmap.core.index import markers, roots
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.markers import Author, Unreadable

NAME = "_refresh.json"
_written_here: LRUCache[tuple[str, ...], RefreshRecord] = LRUCache(1000)  # a store may have refused to write them
_lock = Lock()  # reading an LRUCache changes it, too


@dataclass(frozen=True, kw_only=True)
class RefreshRecord:
    """The last refresh of an index.

    It has its author and start, its duration, and the number of base files that it read. `seconds` are of the whole
    refresh, which may have been one of several indexes. `error` says why it failed; empty if it did not.
    """

    author: Author
    seconds: float
    files: int
    error: str = ""

    @classmethod
    def of_now(cls, seconds: float, files: int, error: str = "") -> RefreshRecord:
        """Return the record of a refresh that ends now.

        This process did it, and it took so many seconds.
        """
        author = Author.this_process()
        began = replace(author, started=author.started - seconds)
        return cls(author=began, seconds=round(seconds, 3), files=files, error=error)


def write(definition: Definition, record: RefreshRecord, metastore: str) -> None:
    """Write the record into the root of an index.

    Raises OSError and StoreError; this process can read the record even then. The record is written only if the root
    has the marker of this very index, and of this metastore. A folder that properties name may belong to another user,
    and some stores would create the root of a dropped index again.
    """
    with _lock:
        _written_here[_key(definition)] = record
    if roots.is_marked(definition, metastore):
        fields = {"seconds": record.seconds, "files": record.files, "error": record.error}
        markers.write(definition.root, NAME, {**asdict(record.author), **fields})


def read(definition: Definition) -> RefreshRecord | None:
    """Return the record of the last refresh of an index.

    Returns None if none is known. Raises StoreError.
    """
    with _lock:
        here = _written_here.get(_key(definition))
    records = [record for record in (here, _stored(definition.root)) if record is not None]
    return max(records, key=lambda record: record.author.started, default=None)


def _key(definition: Definition) -> tuple[str, ...]:
    return (definition.root, definition.id, definition.full_table, definition.name)


def _stored(root: str) -> RefreshRecord | None:
    try:
        content = markers.read(root, NAME)
        if content is None:
            return None
        author = Author.of(content, NAME)
    except Unreadable:
        return None
    seconds, files, error = (content.get(key) for key in ("seconds", "files", "error"))
    if not markers.is_time(seconds) or not isinstance(files, int) or not isinstance(error, str):
        return None
    return RefreshRecord(author=author, seconds=float(seconds), files=files, error=error)
