"""The digest of a listing: by it a refresh knows a partition that did not change, without reading its manifest.

It is a property of the index partition, or of an unpartitioned index table, and says which base files its generation
covers, as a listing of the folder shows them. Whatever else decides whether they are indexed as they are now (columns,
encoding, and which generation it is) is in the digest too. It is compared with nothing but another digest, and queries
do not read it: one that is wrong, missing or of another version costs a look at the manifest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import pyarrow as pa

from hive_bitmap.core.index.definition import PREFIX, Definition
from hive_bitmap.core.stores import FileStatus

PROPERTY = PREFIX + "listing"
_BYTES = 16  # of the digest, which has two hex digits for each
_OF_A_FILE = ("path", "size", "mtime_ms", "etag")


def of_manifest(folder: str, definition: Definition, files: pa.Table, schema_crc: int) -> str:
    """Return the digest of the listing that shows the base files of a manifest (schema `manifest.FILES`) unchanged.

    `folder` is its generation. All files are indexed as the base table is now, whose checksum is `schema_crc`. The
    fingerprint of a file that has to be read again is one that no listing shows.
    """
    columns = (files[name].to_pylist() for name in _OF_A_FILE)
    return _digest(folder, definition, sorted((*file, schema_crc) for file in zip(*columns, strict=True)))


def of_listing(folder: str, definition: Definition, files: Sequence[FileStatus], schema_crc: int) -> str:
    """Return the digest of base files as they are listed; `schema_crc` is that of the base table now.

    `folder` is the generation with which they are compared.
    """
    return _digest(folder, definition, sorted((f.path, f.size, f.mtime_ms, f.etag, schema_crc) for f in files))


def _digest(folder: str, definition: Definition, files: Sequence[tuple[str, int, int, str, int]]) -> str:
    columns = [(column.name, column.type) for column in definition.columns]
    known = [folder, definition.type, definition.encoding, columns, files]
    return hashlib.blake2b(json.dumps(known).encode(), digest_size=_BYTES).hexdigest()
