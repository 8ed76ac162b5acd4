"""A table and its indexes as the server sees them now: folders, files, manifests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from zoneinfo import available_timezones

import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.errors import CorruptIndex, NotPermitted, ServerError, Unsupported
from hive_bitmap.hiveserver import files, tables
from hive_bitmap.hiveserver.connection import Server
from hive_bitmap.index import checksums, generation, manifest
from hive_bitmap.index.definition import Definition, schema_crc
from hive_bitmap.index.manifest import FILES, Manifest
from hive_bitmap.metastore import file_listing, serde
from hive_bitmap.metastore.file_listing import is_visible
from hive_bitmap.metastore.table_info import Table, partition_name
from hive_bitmap.selecting.candidates import PartitionState
from hive_bitmap.stores import FileStatus

_HARMLESS = re.compile(  # lines of SET: no value, folders within folders, which are refused, and codecs that are known
    r"[^=]*=?|[^=]*(?:recursive|subdirectories)=.*"
    r"|io\.compression\.codecs=(?:,?\s*(?:org\.apache\.hadoop\.io\.compress|com\.hadoop\.compression\.lzo)\.\w+)*\s*",
    re.IGNORECASE,
)
Values = tuple[str | None, ...]  # of the partition columns; () where there are none


def format_of(server: Server, base: Table) -> str:
    """The format of a table's files. Raises Unsupported where the server, as it is set, might read others or otherwise
    than was indexed.
    """
    format = file_listing.format_of(base)
    if not serde.reading(base):
        if odd := file_listing.odd_option(base) or _by_place(server, format):
            raise Unsupported(f"table {base.full_name} is read otherwise than it was indexed: {odd}")
        return format
    if server.is_spark:
        raise Unsupported(
            f"Spark's Thrift Server does not show all files that it reads as {format}: ask HiveServer2, or Spark itself"
        )
    said = (str(row[0]) for row in server.rows("SET -v"))
    if doubt := serde.why_unsupported(dict(line.split("=", 1) for line in said if not _HARMLESS.fullmatch(line))):
        raise Unsupported(f"table {base.full_name} is read otherwise than it was indexed: {doubt}")
    return format


def folders(server: Server, table: Table, wanted: Iterable[Values]) -> dict[Values, str]:
    """The folder of a table, or of those of its partitions that are wanted and there.

    Raises Unsupported for a partition that is read otherwise than its table.
    """
    if not table.partition_columns:
        return {(): table.location}
    there = set(tables.partitions(server, table))
    found = [tables.partition(server, table, values) for values in wanted if values in there]
    serde.require_alike(table, found)
    return {one.values: one.location for one in found}


def state(
    server: Server, base: Table, format: str, values: Values, folder: str, indexes: Sequence[tuple[Definition, str]]
) -> PartitionState:
    """The files of one partition, and the manifests of its indexes, each given with the folder of its rows.

    Files have bytes and milliseconds since 1970, and no etag. An index has no manifest here where the folder is no
    generation of its own. Raises Unsupported for a folder that readers list in several ways, CorruptIndex, ServerError.
    """
    held = {
        definition.name: _manifest(server, base, format, at)
        for definition, at in indexes
        if generation.is_of(at, definition)
    }
    names = [column.name for column in base.partition_columns]
    return PartitionState(partition_name(names, values), values, tuple(_files(server, base, folder)), held)


def _by_place(server: Server, format: str) -> str | None:
    """The setting of the server under which it knows columns by their places; None where it knows them by name."""
    if format != "orc":
        return None
    said = "=".join(map(str, server.all(f"SET {file_listing.ORC_BY_PLACE}")[0]))
    return said if said.lower().endswith("=true") else None


def _files(server: Server, base: Table, folder: str) -> Iterator[FileStatus]:
    """The files of a folder that hold a byte, as all readers see them; none where it is missing."""
    entries = files.entries(server, folder)
    if entries is None and serde.reading(base):
        raise Unsupported(f"folder {folder} does not exist, at which readers fail")
    for entry in entries or []:
        hidden = entry.name.startswith(("_", "."))
        if (entry.is_folder and not hidden) or hidden == is_visible(entry.name):
            raise Unsupported(f"readers differ about {folder}/{entry.name}: move it away, for its rows could be missed")
        if not hidden and entry.size:
            yield FileStatus(f"{folder}/{entry.name}", entry.size, entry.mtime_ms, "")


def _manifest(server: Server, base: Table, format: str, folder: str) -> Manifest:
    """The manifest of a generation, provided that the folder holds its shards and nothing else."""
    path = f"{folder}/{checksums.FOLDER}/{manifest.LINES}"
    try:
        held = manifest.from_lines(folder, files.lines(server, path))
    except NotPermitted:
        raise
    except ServerError as e:
        raise CorruptIndex(
            f"the manifest {path} cannot be read: {e}; if it is not there, rebuild the index in full"
        ) from e
    here = {one.name: one.size for one in files.entries(server, folder) or [] if is_visible(one.name)}
    if here != held.sizes:
        odd = sorted(here.items() ^ held.sizes.items())[0][0]
        raise CorruptIndex(f"the folder {folder} is not as it was built, see {odd}: rebuild the index")
    return _as_read_now(held, base, format)


def _as_read_now(held: Manifest, base: Table, format: str) -> Manifest:
    """Without the files that were indexed when the table was read otherwise.

    ORC files may name no columns: keys outlive only new columns behind the others. Those that a SerDe reads outlive
    nothing, Parquet's everything. The number of the columns depends on the time zone of the engine that built the
    index, if one is a timestamp.
    """
    reading, columns = serde.reading(base), base.columns
    if format != "orc" and not reading:
        return held
    known = [columns] if reading else [columns[: end + 1] for end in range(len(columns))]
    crcs = pc.unique(held.files["schema_crc"])
    left = set(crcs.to_pylist())
    for zone in ["", *sorted(available_timezones())]:
        if left:
            left -= {schema_crc(some, zone, reading) for some in known}
    if not left:
        return held
    others = pc.is_in(held.files["schema_crc"], value_set=pa.array(sorted(left), pa.int64()))
    shards = pc.if_else(others, pa.scalar(None, pa.string()), held.files["shard"])
    changed_since = "the table's columns, or how they are read, changed since it was indexed"
    reasons = pc.if_else(others, changed_since, held.files["reason"])
    changed = held.files.drop_columns(["shard", "reason"]).append_column("shard", shards)
    return Manifest(held.folder, changed.append_column("reason", reasons).select(FILES.names), held.shards)
