"""Object stores (S3, Google Cloud Storage, Azure) through obstore: no folders, but names that begin alike.

Objects are made whole or not at all, each by one PUT: no multipart upload can be left open, but of one beyond the 5 GB
that a PUT takes. An open file is read under the tag that its first request told; where the object is replaced
meanwhile, the next one fails with FileChanged.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from threading import BoundedSemaphore
from typing import Any, TypeVar

import pyarrow as pa

from hive_bitmap.errors import FileChanged
from hive_bitmap.stores import requests, speed
from hive_bitmap.stores.failures import failed, not_installed
from hive_bitmap.stores.options import Options
from hive_bitmap.stores.paths import parts
from hive_bitmap.stores.ranged import AHEAD, TAIL, Ranged
from hive_bitmap.stores.store import Discarding, FileStatus, Listing, in_order

T = TypeVar("T")
IN_MEMORY = 64 << 20  # bytes of an object that is being written before they go to a temporary file
LARGEST_PUT = 5_000_000_000
LONGEST_REQUEST = "15m"  # a large object may take its time, as long as bytes flow
RETRYING_SECONDS = 60
_BEYOND = ("status code: 416", "non-partial response")  # how the client tells of a range without bytes


class Objects:
    """A bucket or container; `client` is a store of obstore, `advice` says where its settings come from.

    No more than `parallel` requests of this process wait for it at the same time, whoever makes them.
    """

    def __init__(self, client: Any, advice: str, parallel: int) -> None:
        self._client, self._advice, self._slots = client, advice, BoundedSemaphore(parallel)

    def status(self, path: str) -> FileStatus:
        import obstore

        with self._asking(requests.STATUS, path), speed.noted(path):
            return _status(path, obstore.head(self._client, _key(path)))

    def exists(self, path: str) -> bool:
        """An object, or anything below it."""
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
        """One request for a thousand names. The object that stands for the folder itself is no file in it."""
        import obstore

        key = _key(path)
        with self._asking(requests.LIST, path), speed.noted(path):
            found = obstore.list_with_delimiter(self._client, key or None)
        for _ in range(len(found["objects"]) // 1000):
            requests.count(requests.LIST)
        prefix = path.rstrip("/") + "/"
        files = [
            _status(prefix + one["path"].rpartition("/")[2], one) for one in found["objects"] if one["path"] != key
        ]
        folders = [name.rpartition("/")[2] for name in found["common_prefixes"]]
        if key and not found["objects"] and not folders:
            raise FileNotFoundError(f"no folder {path}")
        return Listing(sorted(files, key=lambda file: file.path), sorted(folders))

    def look(self, path: str) -> tuple[FileStatus, bytes]:
        """One request for both."""
        tail, status = self._end(path, None)
        return status, tail

    def open_input(self, path: str, known: FileStatus | None) -> pa.NativeFile:
        """The first request reads the end of the object, and tells its size and tag if they are not known."""
        tail, status = self._end(path, known)
        return pa.PythonFile(
            Ranged(status.size, lambda start, size: self._range(path, start, size, status.etag), tail), mode="r"
        )

    def read_range(self, path: str, start: int, size: int) -> bytes:
        return self._range(path, start, size, "")

    def open_output(self, path: str) -> Any:
        return _Upload(lambda file, size: self._put(path, file, size))

    def make_folder(self, path: str) -> None:
        """There are none."""

    def delete_file(self, path: str) -> None:
        """To delete what is not there is no error of these stores."""
        import obstore

        with self._asking(requests.DELETE, path):
            obstore.delete(self._client, _key(path))

    def delete_folder(self, path: str, last: Sequence[str]) -> None:
        import obstore

        key = _key(path)
        with self._asking(requests.LIST, path):
            found = [one["path"] for batch in obstore.list(self._client, key) for one in batch]
        if not found:
            raise FileNotFoundError(f"no folder {path}")
        ordered = in_order([name.removeprefix(f"{key}/") for name in found if name != key], last)
        before = [f"{key}/{name}" for name in ordered if name not in last]
        with self._asking(requests.DELETE, path):
            if before:
                obstore.delete(self._client, before)
            for name in ordered[len(before) :]:
                obstore.delete(self._client, f"{key}/{name}")

    def copy(self, source: str, target: str) -> bool:
        """Inside the store, which can do that for what fits into a PUT."""
        import obstore

        with self._asking(requests.WRITE, target):
            if parts(source)[:2] != parts(target)[:2]:
                return False
            obstore.copy(self._client, _key(source), _key(target))
        return True

    def copy_permissions(self, source: str, target: str) -> None:
        """Those of a bucket hold for all that is in it."""

    def remove_empty_folders(self, path: str, root: str) -> None:
        """A folder in which nothing is, is none."""

    def _end(self, path: str, known: FileStatus | None) -> tuple[bytes, FileStatus]:
        import obstore

        if known is not None:
            start = 0 if known.size <= AHEAD else known.size - TAIL
            return self._range(path, start, known.size - start, known.etag) if known.size else b"", known
        try:
            with self._asking(requests.READ, path):
                started = time.monotonic()
                got = obstore.get(self._client, _key(path), options={"range": {"suffix": TAIL}})
                status, content = _status(path, got.meta), got.bytes().to_bytes()
                speed.note(path, time.monotonic() - started, len(content))
            requests.count_bytes(len(content))
            return content, status
        except _Beyond:
            return self._end(path, self.status(path))

    def _range(self, path: str, start: int, size: int, etag: str) -> bytes:
        import obstore

        options: Any = {"range": (start, start + size)}
        if etag:
            options["if_match"] = f'"{etag}"'
        try:
            with self._asking(requests.READ, path), speed.noted(path, size):
                content: bytes = obstore.get(self._client, _key(path), options=options).bytes().to_bytes()
        except _Beyond:
            content = b""
        requests.count_bytes(len(content))
        if len(content) != size:  # of an answer that was cut off the client says so
            raise OSError(f"{path} has no {size} bytes from {start} on")
        return content

    def _put(self, path: str, file: Any, size: int) -> None:
        import obstore

        with self._asking(requests.WRITE, path):
            obstore.put(self._client, _key(path), file, use_multipart=size > LARGEST_PUT)
        requests.count_bytes(0, size)

    @contextmanager
    def _asking(self, kind: str, path: str) -> Iterator[None]:
        """Count a request, and tell in one sentence why it failed."""
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
            if kind == requests.READ and any(said in str(error) for said in _BEYOND):
                raise _Beyond from error
            raise failed(f"the store of {path} fails", error, self._advice) from error


class _Beyond(Exception):
    """Bytes were asked for that the object does not have: it is empty, or shorter than it was."""


class _Upload(Discarding):
    """What is written is put together here, and sent when the file is closed."""

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
    """Settings of the HTTP client."""
    seconds = timedelta(seconds=options.number("timeout"))
    return {"timeout": LONGEST_REQUEST, "read_timeout": seconds, "connect_timeout": timedelta(seconds=10), **more}


def retries(options: Options) -> Any:
    """How often, and for how long, a request is repeated that failed for what may pass (5xx, connections, timeouts)."""
    backoff = {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2}
    return {
        "max_retries": options.number("attempts") - 1,
        "retry_timeout": timedelta(seconds=RETRYING_SECONDS),
        "backoff": backoff,
    }


def require_obstore(scheme: str) -> None:
    """Raise StoreError, and say what to install, where obstore is missing."""
    try:
        import obstore  # noqa: F401
    except ImportError as e:
        raise not_installed(scheme, "obstore", "s3") from e


def _key(path: str) -> str:
    return parts(path).path.strip("/")


def _status(path: str, found: Any) -> FileStatus:
    """Some stores tell parts of a second in a listing and not in a HEAD, and put the tag into quotes in one of them."""
    seconds, tag = int(found["last_modified"].timestamp()), (found["e_tag"] or "").strip('"')
    return FileStatus(path, found["size"], seconds * 1000, tag)
