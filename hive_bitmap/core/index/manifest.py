"""Read and write manifests, which list the shards and base files of segments.

The manifest of a segment has the fingerprint and the blocks of each base file. A manifest consists of two Parquet files
in the generation's hidden folder `_manifest`, and of a copy as lines of JSON. Clients of HiveServer2 without access to
files read the copy: `dfs -text` prints the lines. Files of the generation that the manifest does not list are ignored.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hive_bitmap.core import stores
from hive_bitmap.core.index import checksums
from hive_bitmap.core.index.checksums import FOLDER
from hive_bitmap.core.index.definition import BY_NAME
from hive_bitmap.core.memory_budget import cached
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.errors import CorruptIndex

LONGS = pa.list_(pa.field("element", pa.int64(), nullable=False))
# One row for each base file, or several if partitions share its folder, in the state that was indexed, sorted by path.
FILES = pa.schema(
    [
        ("path", pa.string()),  # as Hadoop's Path.toString() prints it
        ("values", pa.list_(pa.field("element", pa.string()))),  # of the partition columns, as the metastore has them
        ("size", pa.int64()),  # bytes
        ("mtime_ms", pa.int64()),  # since 1970
        ("etag", pa.string()),  # empty if the store has none
        ("tail_crc32", pa.int64()),  # with path, size, mtime_ms and etag, the file's `fingerprint.Fingerprint`
        ("shard", pa.string()),  # name of the shard that holds the file's keys; null if the file is not indexed
        ("reason", pa.string()),  # why the file is not indexed; empty if it is indexed
        ("schema_crc", pa.int64()),  # `definition.schema_crc` of the base table when the file was read
        ("indirect", pa.list_(pa.field("element", pa.string()))),  # columns whose values only Spark reads correctly
        ("offsets", LONGS),  # this and the next three columns describe the file's blocks: see `formats.blocks.Blocks`
        ("lengths", LONGS),
        ("rows", LONGS),
        ("starts", LONGS),  # null in manifests of older builds
        # Lower-case names of columns in the file that the table did not have; null in manifests of older builds.
        ("foreign", pa.list_(pa.field("element", pa.string()))),
        ("by_name", pa.bool_()),  # `Format.by_name`; null in manifests of older builds
        (
            "nested",
            pa.list_(pa.field("element", pa.string())),
        ),  # `Format.nested_marks`; null from older builds
        # Columns with bounds, such as "ts timestamp", and for each of them the `Bounds.numbers` of all blocks of the
        # file; null in manifests of older builds.
        ("bounded", pa.list_(pa.field("element", pa.string()))),
        ("bounds", LONGS),
    ]
)
LATER = (
    "values",
    "starts",
    "foreign",
    "by_name",
    "nested",
    "bounded",
    "bounds",
)  # columns that manifests of older builds do not have
# One row for each shard of the generation.
SHARDS = pa.schema(
    [
        ("shard", pa.string()),  # file name in the generation's folder
        ("size", pa.int64()),  # bytes
        ("rows", pa.int64()),  # rows of the index table
        ("cardinality_size", pa.int64()),  # bytes of the shard's cardinality file; 0 for COMPACT
    ]
)

# The files of the folder `checksums.FOLDER`.
FILES_NAME = "files.parquet"
SHARDS_NAME = "shards.parquet"  # written last: a generation that has it is complete
LINES_NAME = "manifest.json.gz"  # the copy as lines of JSON


# Types of columns that may have bounds.
INTEGERS, TIMES = ("tinyint", "smallint", "int", "bigint"), ("date", "timestamp", "timestamp_ntz")

# Why a build reads a base file.
NEW, CHANGED, COLUMNS_CHANGED = "new", "changed", "indexed under other columns"
DAMAGED, ALL, UNBUILT = "damaged in the index", "all are asked for", "not indexed yet"


class Freshness(Enum):
    """Whether a manifest describes the current state of a base file."""

    FRESH = "fresh"  # the file is unchanged since it was indexed
    STALE = "stale"  # the file, or how it is read, has changed since it was indexed
    UNINDEXED = "unindexed"  # no shard covers the file


@dataclass(frozen=True)
class Manifest:
    """The content of a generation.

    `folder` is the path of the generation. `files` has schema FILES, `shards` has schema SHARDS. In both, shards are
    given by file names in `folder` or, if `folder` is "", by paths (`located`).
    """

    folder: str
    files: pa.Table
    shards: pa.Table

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The size of each shard in bytes, by name."""
        return dict(zip(self.shards["shard"].to_pylist(), self.shards["size"].to_pylist(), strict=True))

    def shard_path(self, shard: str) -> str:
        return f"{self.folder}/{shard}" if self.folder else shard

    def named(self) -> Manifest:
        """Return the manifest with shards given by file names, as it is stored."""

        def names(table: pa.Table) -> pa.Table:
            at = table.schema.get_field_index("shard")
            file_names = pc.replace_substring_regex(table["shard"], "^.*/", "")
            return table.set_column(at, table.schema.field(at), file_names)

        return Manifest(self.folder, names(self.files), names(self.shards))

    def located(self) -> Manifest:
        """Return the manifest with shards given by paths.

        The result has no folder, so it can be combined with manifests of other folders.
        """

        def paths(table: pa.Table) -> pa.Table:
            at = table.schema.get_field_index("shard")
            column = table["shard"]
            return table.set_column(at, table.schema.field(at), pc.binary_join_element_wise(self.folder, column, "/"))

        return Manifest("", paths(self.files), paths(self.shards)) if self.folder else self

    def valid_under(self, schemas: Collection[int] | None) -> Manifest:
        """Return the manifest with outdated files marked as not indexed.

        A file is outdated if it is not among the `valid_rows`. `schemas` are the `definition.valid_schemas`; None means
        that no file is outdated.
        """
        valid = pa.array(valid_rows(self.files, schemas))
        if pc.all(valid).as_py() is not False:
            return self
        why = "the table's columns, or how they are read, changed since it was indexed"
        changed = {
            "shard": pc.if_else(valid, self.files["shard"], pa.scalar(None, pa.string())),
            "reason": pc.if_else(valid, self.files["reason"], why),
        }
        files = self.files
        for name, values in changed.items():
            files = files.set_column(files.schema.get_field_index(name), name, values)
        return Manifest(self.folder, files, self.shards)


def bounded_column(name: str, type: str) -> str:
    """Return the item for a column in the field `bounded` of FILES.

    The item has the column's name and its type at the time of the build.

    >>> bounded_column("At", "timestamp")
    'at timestamp'
    """
    return f"{name.lower()} {type}"


def valid_rows(files: pa.Table, schemas: Collection[int] | None) -> npt.NDArray[np.bool_]:
    """Return for each base file whether its schema is still valid.

    `files` has schema FILES. `schemas` are the `definition.valid_schemas`; None means that all files are valid. A file
    is valid if its `schema_crc` is one of `schemas`. If BY_NAME is one of `schemas`, files whose columns are found by
    name are valid, too.
    """
    if schemas is None:
        return np.ones(files.num_rows, bool)
    is_valid = np.isin(files["schema_crc"].to_numpy(), np.array(sorted(schemas), np.int64))
    if BY_NAME not in schemas:
        return is_valid
    by_name = pc.fill_null(files["by_name"], False).to_numpy(zero_copy_only=False)
    return is_valid | by_name.astype(bool)


def write(folder: str, files: Sequence[pa.Table], shards: pa.Table, sums: Mapping[str, Sequence[int]]) -> None:
    """Write the manifest of a generation.

    `generation.start` must have created the generation, and all shards must have been written. `files` are tables of
    schema FILES, in any order. `shards` has schema SHARDS. `sums` has the checksums of shards and cardinality files, by
    file name. Users who may read all shards may read the manifest. Raise OSError or StoreError.
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

    *before_last, last = [partial(put, name) for name in contents]
    first: list[Callable[[], None]] = [put_sums, *before_last]
    map_parallel(lambda write: write(), first, stores.parallel(folder))
    last()  # to `generation.usage`, a manifest with this file is complete


def _bytes(manifest: Manifest) -> int:
    return manifest.files.nbytes + manifest.shards.nbytes


@cached("manifests", _bytes)
def read(folder: str) -> Manifest:
    """Read the manifest of a generation.

    The manifest is cached, because a manifest never changes. Raise CorruptIndex if the manifest cannot be read or a
    checksum is wrong. Raise DroppedIndex if the manifest no longer exists. Raise StoreError.
    """
    names, tables = (FILES_NAME, SHARDS_NAME), []
    requests: list[Callable[[], Any]] = [partial(stores.read_immutable, f"{folder}/{FOLDER}/{name}") for name in names]
    requests.append(partial(checksums.read, folder))
    try:  # at once, if the store is remote
        *contents, sums = map_parallel(lambda request: request(), requests, stores.parallel(folder))
    except OSError as e:
        raise checksums.error(folder, "the manifest", e) from e
    for name, schema, content in zip(names, (FILES, SHARDS), contents, strict=True):
        try:
            checksums.require(content, sums.get(name))
            table = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)  # read_table takes twice as long
            for field in schema:  # add the columns that older builds do not write
                if field.name in LATER and field.name not in table.column_names:
                    table = table.append_column(field, pa.nulls(table.num_rows, field.type))
            tables.append(table.select(schema.names).cast(schema))
        except (OSError, pa.ArrowException, KeyError, ValueError) as e:
            raise CorruptIndex(f"manifest {folder}/{FOLDER}/{name} cannot be read: {e}") from e
    return Manifest(folder, *tables)


def from_lines(folder: str, lines: Iterable[str]) -> Manifest:
    """Parse a manifest from lines of JSON, as printed by HiveServer2.

    Raise CorruptIndex for malformed lines.
    """
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
    files = files.drop_columns(["bounded", "bounds"])  # readers of the lines do not read base files
    rows = [{kind: row} for kind, table in (("file", files), ("shard", shards)) for row in table.to_pylist()]
    return gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode(), mtime=0)


def _serialised(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    return sink.getvalue()
