"""Access object stores (S3, Google Cloud Storage, Azure) through obstore.

Object stores have no folders, only common prefixes of names.

An object is written by a single PUT, so the object appears completely or not at all, and no multipart upload can remain
unfinished. Only objects larger than the 5 GB limit of a PUT need a multipart upload. All requests for an open file
require the entity tag of the first request. If the object was replaced, the next request fails with FileChanged.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from threading import BoundedSemaphore
from typing import Any, TypeVar

import pyarrow as pa

from hive_bitmap.core.stores import requests, speed
from hive_bitmap.core.stores.access import Access
from hive_bitmap.core.stores.options import Options
from hive_bitmap.core.stores.paths import parts
from hive_bitmap.core.stores.ranged import AHEAD, TAIL, Ranged
from hive_bitmap.core.stores.requests import failed, not_installed
from hive_bitmap.core.stores.store import AbortableWriter, FileStatus, Listing, read_whole, replace_file
from hive_bitmap.errors import FileChanged, StoreError

T = TypeVar("T")
IN_MEMORY = 64 << 20  # most bytes of an unfinished object in memory; a larger one is in a temporary file
LARGEST_PUT = 5_000_000_000  # bytes
LONGEST_REQUEST = "15m"  # timeout for large objects; the read timeout ends a stalled transfer earlier
RETRYING_SECONDS = 60
_BEYOND = ("status code: 416", "non-partial response")  # parts of the client's error for a range that does not exist


class Objects:
    """A bucket or container.

    `client` is an obstore store. `advice` names the settings of the bucket or container, for error messages. At most
    `parallel` requests of all threads are in flight at once.
    """

    def __init__(self, client: Any, advice: str, parallel: int) -> None:
        self._client, self._advice, self._slots = client, advice, BoundedSemaphore(parallel)

    def status(self, path: str) -> FileStatus:
        import obstore

        with self._request(requests.STATUS, path), speed.noted(path):
            return _status(path, obstore.head(self._client, _key(path)))

    def exists(self, path: str) -> bool:
        """Return whether there is an object or a folder of this name."""
        try:
            self.listing(path)
        except FileNotFoundError:
            pass
        else:
            return True
        try:
            self.status(path)
        except FileNotFoundError:
            return False
        return True

    def listing(self, path: str) -> Listing:
        """List a folder, with one request for each 1000 names.

        The marker object of the folder itself is left out.
        """
        import obstore

        key = _key(path)
        with self._request(requests.LIST, path), speed.noted(path):
            result = obstore.list_with_delimiter(self._client, key or None)
        for _ in range(len(result["objects"]) // 1000):
            requests.count(requests.LIST)
        prefix = path.rstrip("/") + "/"
        files = [
            _status(prefix + meta["path"].rpartition("/")[2], meta) for meta in result["objects"] if meta["path"] != key
        ]
        folders = [name.rpartition("/")[2] for name in result["common_prefixes"]]
        if key and not result["objects"] and not folders:
            raise FileNotFoundError(f"no folder {path}")
        return Listing(sorted(files, key=lambda file: file.path), sorted(folders))

    def listings(self, root: str, folders: Sequence[str]) -> dict[str, Listing]:
        """List folders below `root` together.

        One request lists 1000 objects below `root`. A folder is missing from the result if it is empty, or if its
        content is not certain. The result is empty if many of the objects below `root` are in other folders, because
        listing each folder then takes fewer requests.
        """
        import obstore

        requested = {_key(folder): folder for folder in folders}
        files: dict[str, list[FileStatus]] = defaultdict(list)
        nested: dict[str, set[str]] = defaultdict(set)
        unclear, number, others = set[str](), 0, 0
        with self._request(requests.LIST, root):
            for page in obstore.list(self._client, _key(root) or None, chunk_size=1000):
                for meta in page:
                    number += 1
                    if number % 1000 == 0:
                        requests.count(requests.LIST)
                    key = meta["path"]
                    above, _, name = key.rpartition("/")
                    if above in requested:
                        files[requested[above]].append(_status(f"{requested[above].rstrip('/')}/{name}", meta))
                        # An empty object, or one with the name of a folder, may be the marker of a folder. Only a
                        # listing of the folder itself shows this.
                        unclear |= set() if meta["size"] and key not in requested else {requested[above]}
                    is_requested = key in requested or above in requested
                    while above:
                        above, _, name = above.rpartition("/")
                        if above in requested:
                            nested[requested[above]].add(name)
                            is_requested = True
                    others += not is_requested
                    if others > max(1000, number // 2):
                        return {}
        return {
            folder: Listing(sorted(files[folder], key=lambda file: file.path), sorted(nested[folder]))
            for folder in {*files, *nested} - unclear
        }

    def status_and_tail(self, path: str) -> tuple[FileStatus, bytes]:
        """Return the status and the tail of a file, with a single request."""
        tail, status = self._end(path, None)
        return status, tail

    def open_input(self, path: str, listed: FileStatus | None) -> pa.NativeFile:
        """Open an object for random reading.

        The first request reads the end of the object. Without `listed`, this request also gets the size and the tag of
        the object.
        """
        tail, status = self._end(path, listed)
        return pa.PythonFile(
            Ranged(status.size, lambda start, size: self._range(path, start, size, status.etag), tail), mode="r"
        )

    def read_range(self, path: str, start: int, size: int) -> bytes:
        return self._range(path, start, size, "")

    def open_output(self, path: str, *, private: bool = False) -> Any:
        return _Upload(lambda file, size: self._put(path, file, size))

    def make_folder(self, path: str) -> None:
        """Do nothing: object stores have no folders."""

    def make_new_folder(self, path: str, access: Access | None) -> None:
        """Do nothing, like `make_folder`."""

    def delete_file(self, path: str) -> None:
        """Delete an object. Object stores do not report a missing object."""
        import obstore

        with self._request(requests.DELETE, path):
            obstore.delete(self._client, _key(path))

    def read_whole(self, path: str, most: int) -> bytes:
        return read_whole(self, path, most)

    def replace_file(self, path: str, content: bytes) -> None:
        replace_file(self, path, content)

    def delete_files(self, folder: str, names: Sequence[str], root: str) -> None:
        import obstore

        if names:
            with self._request(requests.DELETE, folder):
                obstore.delete(self._client, [_key(f"{folder}/{name}") for name in names])

    def copy(self, source: str, target: str) -> bool:
        """Copy an object inside the store.

        Return False if the paths are in different stores.
        """
        import obstore

        if parts(source)[:2] != parts(target)[:2]:
            return False
        with self._request(requests.WRITE, source):  # the error names the source, because usually this is missing
            obstore.copy(self._client, _key(source), _key(target))
        return True

    def access(self, path: str) -> None:
        """Return None: permissions apply to the whole bucket."""

    def set_access(self, path: str, access: Access) -> None:
        """Do nothing: permissions apply to the whole bucket."""

    def remove_folder(self, path: str, root: str) -> None:
        """Do nothing: an empty folder does not exist."""

    def _end(self, path: str, listed: FileStatus | None) -> tuple[bytes, FileStatus]:
        import obstore

        if listed is not None:
            start = 0 if listed.size <= AHEAD else listed.size - TAIL
            return self._range(path, start, listed.size - start, listed.etag) if listed.size else b"", listed
        try:
            with self._request(requests.READ, path):
                started = time.monotonic()
                response = obstore.get(self._client, _key(path), options={"range": {"suffix": TAIL}})
                status, content = _status(path, response.meta), response.bytes().to_bytes()
                speed.note(path, time.monotonic() - started, len(content))
            requests.count_bytes(len(content))
            return content, status
        except _BeyondEnd:
            return self._end(path, self.status(path))

    def _range(self, path: str, start: int, size: int, etag: str) -> bytes:
        import obstore

        options: Any = {"range": (start, start + size)}
        if etag:
            options["if_match"] = f'"{etag}"'
        try:
            with self._request(requests.READ, path), speed.noted(path, size):
                content: bytes = obstore.get(self._client, _key(path), options=options).bytes().to_bytes()
        except _BeyondEnd:
            content = b""
        requests.count_bytes(len(content))
        if len(content) != size:  # the client itself reports a response that was cut off
            raise OSError(f"{path} has no {size} bytes from {start} on")
        return content

    def _put(self, path: str, file: Any, size: int) -> None:
        import obstore

        with self._request(requests.WRITE, path):
            obstore.put(self._client, _key(path), file, use_multipart=size > LARGEST_PUT)
        requests.count_bytes(0, size)

    @contextmanager
    def _request(self, kind: str, path: str) -> Iterator[None]:
        """Count a request, and convert the client's errors to the errors of `Store`."""
        from obstore.exceptions import BaseError, PreconditionError

        requests.count(kind)
        try:
            with self._slots:
                yield
        except FileNotFoundError as error:
            raise FileNotFoundError(f"no such file: {path}") from error
        except PreconditionError as error:
            raise FileChanged(f"{path} was replaced while it was read: run the query again") from error
        except (BaseError, OSError, ValueError) as error:
            if kind == requests.READ and any(part in str(error) for part in _BEYOND):
                raise _BeyondEnd from error
            raise failed(f"the store of {path} fails", error, self._advice) from error


class _BeyondEnd(Exception):
    """The requested range is beyond the end of the object.

    The object is empty or has become shorter.
    """


class _Upload(AbortableWriter):
    """A file for writing, which is uploaded when it is closed.

    The content is buffered.
    """

    def __init__(self, put: Callable[[Any, int], None]) -> None:
        self._put, self._content = put, tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115

    def write(self, data: Any) -> int:
        return self._content.write(memoryview(data))

    def tell(self) -> int:
        return self._content.tell()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            size = self._content.tell()
            self._content.seek(0)
            with self._content:
                self._put(self._content, size)

    def discard(self) -> None:
        self.closed = True
        self._content.close()


def client_options(options: Options, **more: Any) -> Any:
    """Return the settings of obstore's HTTP client; `more` are settings to add or replace."""
    seconds = timedelta(seconds=options.number("timeout"))
    return {"timeout": LONGEST_REQUEST, "read_timeout": seconds, "connect_timeout": timedelta(seconds=10), **more}


def retries(options: Options) -> Any:
    """Return obstore's settings for retries after status 5xx, connection errors and timeouts."""
    backoff = {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2}
    return {
        "max_retries": options.number("attempts") - 1,
        "retry_timeout": timedelta(seconds=RETRYING_SECONDS),
        "backoff": backoff,
    }


def require_obstore(scheme: str) -> None:
    """Raise StoreError unless obstore is installed; the message says what to install."""
    try:
        import obstore  # noqa: F401
    except ImportError as e:
        raise not_installed(scheme, "obstore", "s3") from e


@contextmanager
def opening(what: str, advice: str) -> Iterator[None]:
    """Convert errors of obstore's constructors to StoreError.

    `what` names the bucket or container, `advice` the settings to check.
    """
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, ValueError) as e:
        raise StoreError(f"{what} cannot be opened: {str(e).splitlines()[0]} ({advice})") from e


def _key(path: str) -> str:
    return parts(path).path.strip("/")


def _status(path: str, meta: Any) -> FileStatus:
    """Return the status in the metadata of an object.

    The status must be the same for a listing and a HEAD request. Some stores send fractions of a second, or quotes
    around the tag, only in a listing or only in a HEAD request. So fractions and quotes are removed.
    """
    seconds, tag = int(meta["last_modified"].timestamp()), (meta["e_tag"] or "").strip('"')
    return FileStatus(path, meta["size"], seconds * 1000, tag)
