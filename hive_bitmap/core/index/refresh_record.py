"""Keep a record of an index's last refresh after writes to its table.

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
_written_here: LRUCache[tuple[str, ...], RefreshRecord] = LRUCache(1000)  # also records that a store refused to write
_lock = Lock()  # needed for reads, too, because they change an LRUCache


@dataclass(frozen=True, kw_only=True)
class RefreshRecord:
    """The last refresh of an index.

    `author` has the process and the start of the refresh. `seconds` is the duration of the whole refresh, which may
    include other indexes of the table. `files` is the number of base files that were read. `error` says why the refresh
    failed; it is empty if the refresh succeeded.
    """

    author: Author
    seconds: float
    files: int
    error: str = ""

    @classmethod
    def of_now(cls, seconds: float, files: int, error: str = "") -> RefreshRecord:
        """Return the record of a refresh by this process that ends now.

        The refresh took `seconds`, and read `files` base files.
        """
        author = Author.this_process()
        began = replace(author, started=author.started - seconds)
        return cls(author=began, seconds=round(seconds, 3), files=files, error=error)


def write(definition: Definition, record: RefreshRecord, metastore: str) -> None:
    """Write the record into the root of an index.

    `metastore` is the id of this metastore. The record is written only if the marker in the root names this index and
    this metastore. Without this check, a property that names another user's folder as the root would make this process
    write into that folder, and some stores would create the root of a dropped index again. If the record is not
    written, `read` still returns it in this process. Raises OSError and StoreError.
    """
    with _lock:
        _written_here[_key(definition)] = record
    if roots.is_marked(definition, metastore):
        fields = {"seconds": record.seconds, "files": record.files, "error": record.error}
        markers.write(definition.root, NAME, {**asdict(record.author), **fields})


def read(definition: Definition) -> RefreshRecord | None:
    """Return the record of the last refresh of an index; None without a record.

    Raises StoreError.
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
