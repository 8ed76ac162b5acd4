"""The record of the last refresh of an index after writes: a small file in its root, for whoever looks at the index."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from threading import Lock

from cachetools import LRUCache

from hive_bitmap.core.index import markers, roots
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.markers import Author, Unreadable

NAME = "_refresh.json"
_written_here: LRUCache[tuple[str, ...], RefreshRecord] = LRUCache(1000)  # a store may have refused to keep them
_lock = Lock()  # a look-up changes an LRUCache, too


@dataclass(frozen=True, kw_only=True)
class RefreshRecord:
    """The last refresh of an index: by whom and when it began, how long it took, and how many base files it read.

    `seconds` are of the whole refresh, which may have been one of several indexes. `error` says why it failed; empty if
    it did not.
    """

    author: Author
    seconds: float
    files: int
    error: str = ""

    @classmethod
    def of_now(cls, seconds: float, files: int, error: str = "") -> RefreshRecord:
        """Return the record of a refresh of this process that took so many seconds until now."""
        this = Author.this_process()
        began = replace(this, started=this.started - seconds)
        return cls(author=began, seconds=round(seconds, 3), files=files, error=error)


def write(definition: Definition, record: RefreshRecord, metastore: str) -> None:
    """Write the record into the root of an index. Raise OSError and StoreError; this process reads it all the same.

    Only a root with the marker of this very index, and of this metastore, gets it. A place that properties name may be
    somebody else's, and some stores would make anew the root of an index that was dropped meanwhile.
    """
    with _lock:
        _written_here[_key(definition)] = record
    if roots.is_marked(definition, metastore):
        fields = {"seconds": record.seconds, "files": record.files, "error": record.error}
        markers.write(definition.root, NAME, {**asdict(record.author), **fields})


def read(definition: Definition) -> RefreshRecord | None:
    """Return the record of the last refresh of an index; None if none is known. Raise StoreError."""
    with _lock:
        here = _written_here.get(_key(definition))
    known = [one for one in (here, _stored(definition.root)) if one is not None]
    return max(known, key=lambda one: one.author.started, default=None)


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
