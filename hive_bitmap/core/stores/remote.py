"""Open remote stores by scheme, and read their immutable files through the cache.

This module loads the clients of all remote stores. A process that reads only local files never imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from threading import RLock

import pyarrow as pa

from hive_bitmap.core.stores import clouds, file_cache, hdfs, libhdfs
from hive_bitmap.core.stores.objects import Objects
from hive_bitmap.core.stores.options import Options, current
from hive_bitmap.core.stores.paths import parts
from hive_bitmap.core.stores.ranged import Ranged
from hive_bitmap.core.stores.store import Listing, Store
from hive_bitmap.errors import Unsupported

# Schemes of stores with conditional requests, which fail if the object no longer has a given entity tag.
TAGGED = (*clouds.S3, *clouds.GOOGLE, *clouds.AZURE)
_opening = RLock()


def store_of(path: str) -> Store:
    """Return the remote store of a path; raise Unsupported for an unknown scheme."""
    scheme, authority, _ = parts(path)
    options = current()
    with _opening:  # otherwise, concurrent threads could open the same store twice, each with a limit on requests
        return _opened(scheme, authority, options)


@lru_cache(maxsize=64)
def _opened(scheme: str, authority: str, options: Options) -> Store:
    if scheme not in _STORES:
        raise Unsupported(f"no reader for files of scheme {scheme!r}; known: {', '.join(['file', *_STORES])}")
    return _STORES[scheme](options, scheme, authority)


def listings(store: Store, root: str, folders: Sequence[str]) -> dict[str, Listing]:
    """List folders below `root` together, as far as the store can.

    Folders that have to be listed one by one are missing from the result.
    """
    return store.listings(root, folders) if isinstance(store, Objects) else {}


def open_immutable(path: str, size: int) -> pa.NativeFile:
    """Implement `stores.open_immutable`: cache each part that is read."""
    store = store_of(path)
    ranged = Ranged(size, lambda at, length: file_cache.read(store, path, size, at, length), ahead=0)
    return pa.PythonFile(ranged, mode="r")


def read_immutable(path: str) -> bytes:
    """Implement `stores.read_immutable`: use the cache folder, if one is set."""
    options = current()
    content = file_cache.get(options, path)
    if content is None:
        with store_of(path).open_input(path, None) as source:
            content = bytes(source.read())
        file_cache.put(options, path, content)
    return content


def _open_hdfs(options: Options, scheme: str, authority: str) -> Store:
    client = libhdfs if options.hdfs_client == "libhdfs" else hdfs
    return client.open_cluster(options, scheme, authority)


# The function that opens the store of a scheme. To add a store, write its module and add a line here.
_STORES: dict[str, Callable[[Options, str, str], Store]] = {
    **dict.fromkeys(hdfs.SCHEMES, _open_hdfs),
    **dict.fromkeys(clouds.S3, lambda options, _, bucket: clouds.open_bucket(options, bucket)),
    **dict.fromkeys(clouds.GOOGLE, lambda options, _, bucket: clouds.open_google(options, bucket)),
    **dict.fromkeys(clouds.AZURE, lambda options, _, container: clouds.open_azure(options, container)),
}
