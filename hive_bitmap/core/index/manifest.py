"""The manifest of a generation: its shards, and the base files that it covers with their fingerprints and blocks.

It is two Parquet files in the generation's hidden folder `_manifest`, and a copy as lines of JSON for clients of
HiveServer2 that have no access to files (`dfs -text` prints it). Files of the generation that it does not list are
ignored.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hive_bitmap.core import stores
from hive_bitmap.core.index import checksums, unreadable
from hive_bitmap.core.index.checksums import FOLDER
from hive_bitmap.core.index.definition import BY_NAME
from hive_bitmap.core.index.fingerprint import Fingerprint
from hive_bitmap.core.memory_budget import cached
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.errors import CorruptIndex

LONGS = pa.list_(pa.field("element", pa.int64(), nullable=False))
# One row for each base file of the partition as the build found it, sorted by path.
FILES = pa.schema(
    [
        ("path", pa.string()),  # as Hadoop's Path.toString() prints it
        ("size", pa.int64()),  # bytes
        ("mtime_ms", pa.int64()),  # since 1970
        ("etag", pa.string()),  # empty if the store has none
        ("tail_crc32", pa.int64()),  # these five are the file's `fingerprint.Fingerprint`
        ("shard", pa.string()),  # name of the shard that holds its keys; null if the file is not indexed
        ("reason", pa.string()),  # why it is not indexed; empty if it is
        ("schema_crc", pa.int64()),  # `definition.schema_crc` of the base table when the file was read
        ("indirect", pa.list_(pa.field("element", pa.string()))),  # columns whose values only Spark reads correctly
        ("offsets", LONGS),  # these four describe its blocks, in file order: see `formats.blocks.Blocks`
        ("lengths", LONGS),
        ("rows", LONGS),
        ("starts", LONGS),  # null in manifests of older builds
        # Lower-case names of columns in the file that the table did not have; null in manifests of older builds.
        ("foreign", pa.list_(pa.field("element", pa.string()))),
        ("by_name", pa.bool_()),  # `Format.by_name`; null in manifests of older builds
    ]
)
LATER = ("starts", "foreign", "by_name")  # columns that manifests of older builds do not have
# One row for each shard of the generation.
SHARDS = pa.schema(
    [
        ("shard", pa.string()),  # file name in the generation's folder
        ("size", pa.int64()),  # bytes
        ("rows", pa.int64()),  # rows of the index table
        ("cardinality_size", pa.int64()),  # bytes of the file of its cardinalities; 0 for COMPACT
    ]
)

# The files of the folder `checksums.FOLDER`.
FILES_NAME = "files.parquet"
SHARDS_NAME = "shards.parquet"  # written last: a generation that has it is complete
LINES_NAME = "manifest.json.gz"  # the copy as lines of JSON


# Why a build reads a base file.
NEW, CHANGED, COLUMNS_CHANGED = "new", "changed", "indexed under other columns"
DAMAGED, ALL, UNBUILT = "damaged in the index", "all are asked for", "not indexed yet"

FILE_BYTES = 1000  # memory of the Python values of a file that `Manifest` derives, besides its row of `files`


class Freshness(Enum):
    """Whether a manifest describes a base file as it is now."""

    FRESH = "fresh"  # the file is as it was indexed
    STALE = "stale"  # the file, or how it is read, has changed since it was indexed
    UNINDEXED = "unindexed"  # no shard covers the file


@dataclass(frozen=True)
class Manifest:
    """The content of the generation `folder`: `files` has schema FILES, `shards` has schema SHARDS."""

    folder: str
    files: pa.Table
    shards: pa.Table

    @cached_property
    def row_of(self) -> dict[str, int]:
        """The row number in `files` of each path."""
        return {path: row for row, path in enumerate(self.files["path"].to_pylist())}

    @cached_property
    def fingerprints(self) -> list[Fingerprint]:
        """The fingerprint of each row of `files`."""
        columns = self.files.select([field.name for field in fields(Fingerprint)])
        return [Fingerprint.of(row) for row in columns.to_pylist()]

    @cached_property
    def shard_of(self) -> list[str | None]:
        """The shard of each row of `files`; None for a file that is not indexed."""
        shards: list[str | None] = self.files["shard"].to_pylist()
        return shards

    @cached_property
    def spark_only(self) -> dict[str, frozenset[str]]:
        """The columns that only Spark may read, in lower case, by path of the files that have some."""
        some = self.files.filter(pc.greater(pc.list_value_length(self.files["indirect"]), 0))
        columns = zip(some["path"].to_pylist(), some["indirect"].to_pylist(), strict=True)
        return {path: frozenset(name.lower() for name in names) for path, names in columns}

    @cached_property
    def schema_crcs(self) -> list[int]:
        """The `definition.schema_crc` under which each row of `files` was indexed."""
        crcs: list[int] = self.files["schema_crc"].to_pylist()
        return crcs

    @cached_property
    def by_name(self) -> list[bool | None]:
        """Whether the columns of each row of `files` are found by name (`Format.by_name`); None if it is not known."""
        found: list[bool | None] = self.files["by_name"].to_pylist()
        return found

    @cached_property
    def starts_of(self) -> list[npt.NDArray[np.int64] | None]:
        """The first bytes of the blocks of each row of `files`; None if an older build did not record them."""
        found = self.files["starts"].to_pylist()
        return [None if starts is None else np.array(starts, np.int64) for starts in found]

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The size of each shard in bytes, by name."""
        return dict(zip(self.shards["shard"].to_pylist(), self.shards["size"].to_pylist(), strict=True))

    @cached_property
    def entries(self) -> dict[str, int]:
        """The number of rows of each shard, by name."""
        return dict(zip(self.shards["shard"].to_pylist(), self.shards["rows"].to_pylist(), strict=True))

    def shard_path(self, shard: str) -> str:
        return f"{self.folder}/{shard}"

    def freshness(self, file: FileStatus, schemas: Collection[int] | None) -> Freshness:
        """Compare a base file, as it is listed now, with the manifest.

        A file that was indexed under none of the `definition.valid_schemas` is stale too.
        """
        row = self.row_of.get(file.path)
        if row is None or self.shard_of[row] is None:
            return Freshness.UNINDEXED
        same = self.fingerprints[row].matches(file) and self._is_valid(row, schemas)
        return Freshness.FRESH if same else Freshness.STALE

    def why_read(self, file: FileStatus, schemas: Collection[int] | None, schema_crc: int) -> str:
        """Return why the next build reads a base file, as it is listed now; "" if it keeps what it has of it.

        `schemas` are as in `freshness`, `schema_crc` is that of the table now: a file that could not be indexed is
        tried again under other columns.
        """
        row = self.row_of.get(file.path)
        if row is None:
            return NEW
        if not self.fingerprints[row].matches(file):
            return CHANGED
        crc, indexed = self.schema_crcs[row], self.shard_of[row] is not None
        valid = crc == schema_crc or (indexed and self._is_valid(row, schemas))
        return "" if valid else COLUMNS_CHANGED

    def _is_valid(self, row: int, schemas: Collection[int] | None) -> bool:
        """Whether a row of `files` was indexed under one of the `definition.valid_schemas`."""
        if schemas is None or self.schema_crcs[row] in schemas:
            return True
        return BY_NAME in schemas and bool(self.by_name[row])

    def has_seen(self, file: FileStatus) -> bool:
        """Return whether a build has read a base file as it is listed now, also if it could not be indexed."""
        row = self.row_of.get(file.path)
        return row is not None and self.fingerprints[row].matches(file)

    def valid_under(self, schemas: Collection[int] | None) -> Manifest:
        """Return the manifest with files unindexed that were indexed under none of the `definition.valid_schemas`."""
        validity = [self._is_valid(row, schemas) for row in range(self.files.num_rows)]
        if all(validity):
            return self
        valid = pa.array(validity, pa.bool_())
        why = "the table's columns, or how they are read, changed since it was indexed"
        changed = {
            "shard": pc.if_else(valid, self.files["shard"], pa.scalar(None, pa.string())),
            "reason": pc.if_else(valid, self.files["reason"], why),
        }
        files = self.files
        for name, values in changed.items():
            files = files.set_column(files.schema.get_field_index(name), name, values)
        return Manifest(self.folder, files, self.shards)

    def at(self, folder: str) -> Manifest:
        """Return the manifest of the same base files in another folder, to which the folder of all of them was moved.

        If they lie in several folders, or in this one already, it is this manifest.
        """
        paths = [path.rpartition("/") for path in self.row_of]
        if not paths or {parent for parent, _, _ in paths} != {paths[0][0]} or paths[0][0] == folder:
            return self
        moved = pa.array([f"{folder}/{name}" for _, _, name in paths], pa.string())
        files = self.files.set_column(self.files.schema.get_field_index("path"), FILES.field("path"), moved)
        return Manifest(self.folder, files, self.shards)

    def gone(self, files: Iterable[FileStatus]) -> int:
        """Return how many base files of the manifest are not among `files`, those listed now."""
        listed = {file.path for file in files}
        return sum(path not in listed for path in self.row_of)


def write(folder: str, files: Sequence[pa.Table], shards: pa.Table, sums: Mapping[str, Sequence[int]]) -> None:
    """Write the manifest of a generation that was started, and all of whose shards have been written.

    `files` are tables of schema FILES, in any order, `shards` has schema SHARDS, `sums` are the checksums of shards and
    cardinalities by file name. Who may read all shards may read the manifest. Raise OSError or StoreError.
    """
    ordered = pa.concat_tables([FILES.empty_table(), *files]).sort_by("path")
    contents: dict[str, pa.Buffer | bytes] = {
        FILES_NAME: _serialised(ordered),
        LINES_NAME: _to_lines(ordered, shards),
        SHARDS_NAME: _serialised(shards),
    }
    sums = {**sums, **{name: [zlib.crc32(content)] for name, content in contents.items()}}

    access = stores.access_of([f"{folder}/{shard}" for shard in shards["shard"].to_pylist()], folder)

    def put(name: str) -> None:
        with stores.open_output(f"{folder}/{FOLDER}/{name}", private=True) as sink:
            sink.write(contents[name])
        stores.set_access(f"{folder}/{FOLDER}/{name}", access)

    def put_sums() -> None:
        checksums.write(folder, sums)
        stores.set_access(f"{folder}/{FOLDER}/{checksums.NAME}", access)

    *others, last = [partial(put, name) for name in contents]
    first: list[Callable[[], None]] = [put_sums, *others]
    map_parallel(lambda write: write(), first, stores.parallel(folder))
    last()  # `generation.usage` takes its existence to mean that the manifest is complete


def _bytes(found: Manifest) -> int:
    return found.files.nbytes + found.shards.nbytes + FILE_BYTES * found.files.num_rows


@cached("manifests", _bytes)
def read(folder: str) -> Manifest:
    """Read the manifest of a generation; it never changes, so it is cached.

    Raise CorruptIndex if it cannot be read or a checksum is wrong, DroppedIndex if it is gone, and StoreError.
    """
    names, tables = (FILES_NAME, SHARDS_NAME), []
    requests: list[Callable[[], Any]] = [partial(stores.read_immutable, f"{folder}/{FOLDER}/{name}") for name in names]
    requests.append(partial(checksums.read, folder))
    try:  # at once, if the store is remote
        *contents, sums = map_parallel(lambda request: request(), requests, stores.parallel(folder))
    except OSError as e:
        raise unreadable.error(folder, "the manifest", e) from e
    for name, schema, content in zip(names, (FILES, SHARDS), contents, strict=True):
        try:
            checksums.require(content, sums.get(name))
            table = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)  # read_table takes twice as long
            for field in schema:  # those that older builds do not write
                if field.name in LATER and field.name not in table.column_names:
                    table = table.append_column(field, pa.nulls(table.num_rows, field.type))
            tables.append(table.select(schema.names).cast(schema))
        except (OSError, pa.ArrowException, KeyError, ValueError) as e:
            raise CorruptIndex(f"manifest {folder}/{FOLDER}/{name} cannot be read: {e}") from e
    return Manifest(folder, *tables)


def from_lines(folder: str, lines: Iterable[str]) -> Manifest:
    """Parse a manifest from its lines of JSON, as HiveServer2 printed them; raise CorruptIndex for malformed ones."""
    rows: dict[str, list[dict[str, object]]] = {"file": [], "shard": []}
    try:
        for line in lines:
            for kind, row in json.loads(line).items():
                rows[kind].append(row)
        tables = [pa.Table.from_pylist(rows[kind], schema) for kind, schema in (("file", FILES), ("shard", SHARDS))]
    except (ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as e:
        raise CorruptIndex(f"the manifest of {folder} cannot be read: {e}") from e
    return Manifest(folder, *tables)


def _to_lines(files: pa.Table, shards: pa.Table) -> bytes:
    rows = [{kind: row} for kind, table in (("file", files), ("shard", shards)) for row in table.to_pylist()]
    return gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode(), mtime=0)


def _serialised(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    return sink.getvalue()
