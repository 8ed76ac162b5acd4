"""Access HDFS through libhdfs, which starts a JVM in every process.

The setting `hive_bitmap.stores.hdfs.client` selects libhdfs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from hive_bitmap.core.stores import requests
from hive_bitmap.core.stores.access import Access
from hive_bitmap.core.stores.options import Options
from hive_bitmap.core.stores.paths import parts
from hive_bitmap.core.stores.requests import failed
from hive_bitmap.core.stores.store import (
    FileStatus,
    Listing,
    made_by_another,
    read_whole,
    remove_if_empty,
    replace_file,
    status_and_tail,
)

ADVICE = "libhdfs needs a JDK, ARROW_LIBHDFS_DIR, and CLASSPATH with Hadoop's jars; without it: hdfs.client=native"


def open_cluster(options: Options, scheme: str, authority: str) -> LibHdfs:
    """Open a name node or name service.

    If `authority` is "", Hadoop's configuration on CLASSPATH names it.
    """
    with _request(requests.OTHER, f"{scheme}://{authority}/"):
        return LibHdfs(pafs.HadoopFileSystem.from_uri(f"{scheme}://{authority or 'default'}"))


class LibHdfs:
    """An HDFS cluster, accessed through `pyarrow.fs.HadoopFileSystem`.

    pyarrow can neither read nor set permissions, so `private` files and folders with an `access` get no special
    permissions.
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    def status(self, path: str) -> FileStatus:
        info = self._info(path)
        if info.type != pafs.FileType.File:
            raise FileNotFoundError(f"no such file: {path}")
        return FileStatus(path, info.size, info.mtime_ns // 1_000_000, "")

    def exists(self, path: str) -> bool:
        return bool(self._info(path).type != pafs.FileType.NotFound)

    def listing(self, path: str) -> Listing:
        prefix = path.rstrip("/") + "/"
        with _request(requests.LIST, path):
            infos = self._client.get_file_info(pafs.FileSelector(parts(path).path))
        files = [
            FileStatus(prefix + info.base_name, info.size, info.mtime_ns // 1_000_000, "")
            for info in infos
            if info.type == pafs.FileType.File
        ]
        folders = sorted(info.base_name for info in infos if info.type == pafs.FileType.Directory)
        return Listing(sorted(files, key=lambda file: file.path), folders)

    def status_and_tail(self, path: str) -> tuple[FileStatus, bytes]:
        return status_and_tail(self, path)

    def open_input(self, path: str, listed: FileStatus | None) -> pa.NativeFile:
        with _request(requests.READ, path):
            return self._client.open_input_file(parts(path).path)

    def read_range(self, path: str, start: int, size: int) -> bytes:
        with self.open_input(path, None) as file, _request(requests.READ, path):
            content: bytes = file.read_at(size, start)
            return content

    def open_output(self, path: str, *, private: bool = False) -> pa.NativeFile:
        with _request(requests.WRITE, path):
            return self._client.open_output_stream(parts(path).path)

    def make_folder(self, path: str) -> None:
        with _request(requests.OTHER, path):
            self._client.create_dir(parts(path).path, recursive=True)

    def make_new_folder(self, path: str, access: Access | None) -> None:
        if self.exists(path):
            raise made_by_another(path)
        self.make_folder(path)

    def delete_file(self, path: str) -> None:
        with _request(requests.DELETE, path):
            self._client.delete_file(parts(path).path)

    def read_whole(self, path: str, most: int) -> bytes:
        return read_whole(self, path, most)

    def replace_file(self, path: str, content: bytes) -> None:
        replace_file(self, path, content)

    def delete_files(self, folder: str, names: Sequence[str], root: str) -> None:
        for name in names:
            with suppress(FileNotFoundError):
                self.delete_file(f"{folder}/{name}")

    def remove_folder(self, path: str, root: str) -> None:
        remove_if_empty(self, path, lambda: self._delete_folder(path))

    def copy(self, source: str, target: str) -> bool:
        """Return False, because HDFS can neither copy nor link a file by itself."""
        return False

    def access(self, path: str) -> None:
        """Return None, because pyarrow cannot read permissions."""

    def set_access(self, path: str, access: Access) -> None:
        """Do nothing, because pyarrow cannot set permissions."""

    def _delete_folder(self, path: str) -> None:
        with _request(requests.DELETE, path):
            self._client.delete_dir(parts(path).path)

    def _info(self, path: str) -> Any:
        with _request(requests.STATUS, path):
            return self._client.get_file_info(parts(path).path)


@contextmanager
def _request(kind: str, path: str) -> Iterator[None]:
    """Count a request, and convert OSErrors of the `with` block to StoreError.

    `kind` is the kind of the request. FileNotFoundError and NotADirectoryError are not converted.
    """
    requests.count(kind)
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise failed(f"the store of {path} fails", error, ADVICE) from error
