"""Read a table and its indexes from a server: folders, files, manifests."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar
from zoneinfo import available_timezones

import numpy as np

from hive_bitmap.core.explaining.reports import INDEX_FIELDS, Field, figure
from hive_bitmap.core.index import checksums, manifest
from hive_bitmap.core.index.definition import BY_NAME, Definition, valid_schemas
from hive_bitmap.core.index.manifest import Freshness, Manifest
from hive_bitmap.core.listings import file_listing, serde
from hive_bitmap.core.listings.file_listing import is_visible
from hive_bitmap.core.predicates.nodes import TRUE
from hive_bitmap.core.segments import slots
from hive_bitmap.core.segments.covered import Covered
from hive_bitmap.core.selecting.candidates import Lookup, look_up_files
from hive_bitmap.core.selecting.select import LookupResult
from hive_bitmap.core.selecting.table_files import FileRecords, PartitionState, TableFiles, listing_of
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.table_info import Table, partition_name
from hive_bitmap.errors import CorruptIndex, NotPermitted, ServerError, Unsupported
from hive_bitmap.hive.hiveserver import files, tables
from hive_bitmap.hive.hiveserver.connection import Server

# Lines of `SET -v` without influence here: settings without a value, recursive listing (files in sub-folders are
# refused anyway), and common compression codecs.
_HARMLESS = re.compile(
    r"[^=]*=?|[^=]*(?:recursive|subdirectories)=.*"
    r"|io\.compression\.codecs=(?:,?\s*(?:org\.apache\.hadoop\.io\.compress|com\.hadoop\.compression\.lzo)\.\w+)*\s*",
    re.IGNORECASE,
)
Values = tuple[str | None, ...]  # values of the partition columns; empty if there are none


def format_of(server: Server, base: Table) -> str:
    """Return the format of a table's files.

    Raises Unsupported if the server's settings might make it read other files or values than were indexed.
    """
    format = file_listing.format_of(base)
    if not serde.read_properties(base):
        if reason := file_listing.why_option_unsupported(base) or _positional_setting(server, format):
            raise Unsupported(f"table {base.full_name} is read differently from how it was indexed: {reason}")
        return format
    if server.is_spark:
        raise Unsupported(
            f"Spark's Thrift Server does not show all files that it reads as {format}: ask HiveServer2, or Spark itself"
        )
    settings = (str(row[0]) for row in server.rows("SET -v"))
    if why := serde.why_unsupported(dict(line.split("=", 1) for line in settings if not _HARMLESS.fullmatch(line))):
        raise Unsupported(f"table {base.full_name} is read differently from how it was indexed: {why}")
    return format


def folders(server: Server, table: Table, requested: Iterable[Values]) -> dict[Values, str]:
    """Return the folder of each requested partition that exists, by partition values.

    For a table without partitions, return the folder of the table. Raises Unsupported if a partition's files are read
    differently from the table's files.
    """
    if not table.partition_columns:
        return {(): table.location}
    existing = set(tables.partitions(server, table))
    partitions = [tables.partition(server, table, values) for values in requested if values in existing]
    serde.require_same_properties(table, partitions)
    return {partition.values: partition.location for partition in partitions}


def slots_of(server: Server, index_table: Table) -> dict[int, str]:
    """Return the folder of each slot of an index table, by slot number."""
    by_values = folders(server, index_table, tables.partitions(server, index_table))
    return {
        int(values[0]): folder
        for values, folder in by_values.items()
        if values and values[0] is not None and values[0].isdecimal() and values[0] == str(int(values[0]))
    }


def table_files(
    server: Server,
    base: Table,
    format: str,
    located: Mapping[Values, str],
    indexes: Sequence[tuple[Definition, Sequence[str]]],
) -> TableFiles:
    """Return the files of partitions, and what indexes record about them.

    `located` has the folder of each partition, by partition values. `indexes` pairs the definition of each index with
    the folders of its segments. The files have no etag. A file whose path is indexed or listed more than once is
    treated as unindexed, because rows from the server do not name their shard. Raises Unsupported for a folder that
    some readers may list differently, CorruptIndex and ServerError.
    """
    columns = [column.name for column in base.partition_columns]
    partitions = tuple(
        PartitionState(name=partition_name(columns, values), values=values, files=tuple(_files(server, base, folder)))
        for values, folder in located.items()
    )
    listing, by_index = listing_of(partitions), {}
    times = Counter(listing.paths.to_pylist())
    repeated = np.array([times[path] > 1 for path in listing.paths.to_pylist()], bool)
    for definition, segments in indexes:
        covered = Covered.by([_manifest(server, base, format, folder) for folder in segments])
        numbers = np.array([covered.numbers.get(partition.values, -1) for partition in partitions], np.int64)
        indexed = FileRecords.of(covered, listing, numbers)
        by_index[definition.name] = replace(indexed, valid=indexed.valid & ~indexed.shared & ~repeated)
    return TableFiles(partitions=partitions, records=by_index)


def _positional_setting(server: Server, format: str) -> str | None:
    """Return the setting by which the server finds ORC columns by position.

    Return None without such a setting.
    """
    if format != "orc":
        return None
    setting = "=".join(map(str, server.all(f"SET {file_listing.ORC_BY_POSITION}")[0]))
    return setting if setting.lower().endswith("=true") else None


def _files(server: Server, base: Table, folder: str) -> Iterator[FileStatus]:
    """Yield the nonempty files of a folder, if it exists.

    Raises Unsupported for a sub-folder with a visible name, for a name that only some readers ignore, and for a missing
    folder of a table whose readers then fail.
    """
    entries = files.entries(server, folder)
    if entries is None and serde.read_properties(base):
        raise Unsupported(f"folder {folder} is missing, and readers fail without it: create it")
    for entry in entries or []:
        is_hidden = entry.name.startswith(("_", "."))
        if (entry.is_folder and not is_hidden) or is_hidden == is_visible(entry.name):
            raise Unsupported(f"not all readers read {folder}/{entry.name}: move it away, or its rows could be missed")
        if not is_hidden and entry.size:
            yield FileStatus(f"{folder}/{entry.name}", entry.size, entry.mtime_ms, "")


def _manifest(server: Server, base: Table, format: str, folder: str) -> Manifest:
    """Return the manifest of a generation.

    Raises CorruptIndex unless the folder has exactly the shards in the manifest.
    """
    path = f"{folder}/{checksums.FOLDER}/{manifest.LINES_NAME}"
    try:
        stored = manifest.from_lines(folder, files.lines(server, path))
    except NotPermitted:
        raise
    except ServerError as e:
        raise CorruptIndex(
            f"the manifest {path} cannot be read: {e}; if it is not there, rebuild the index in full"
        ) from e
    present = {entry.name: entry.size for entry in files.entries(server, folder) or [] if is_visible(entry.name)}
    if present != stored.sizes:
        differing = sorted(present.items() ^ stored.sizes.items())[0][0]
        raise CorruptIndex(f"folder {folder} was changed after the build, see {differing}: rebuild the index")
    return _without_outdated_schemas(stored, base, format)


def _without_outdated_schemas(stored: Manifest, base: Table, format: str) -> Manifest:
    """Return a manifest in which files with outdated schemas are not indexed.

    The columns of these files would now be read differently. The checksum of a schema with a timestamp depends on the
    time zone of the engine that built the index, so all time zones are tried. In Spark, ORC files with column names
    stay indexed after any change (`BY_NAME` in `valid_schemas`); in this module they do not stay indexed, because some
    versions of Hive find the columns of ORC files by position.
    """
    valid: set[int] = set()
    crcs = set(stored.files["schema_crc"].to_pylist())
    for zone in ["", *sorted(available_timezones())]:
        schemas = valid_schemas(format, base.columns, zone, serde.read_properties(base))
        if schemas is None or valid.issuperset(crcs):
            return stored
        valid |= schemas - {BY_NAME}
    return stored.valid_under(valid)


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """The numbers of base files of a table, by their state in an index."""

    _fields: ClassVar[tuple[Field, ...]] = (
        *INDEX_FIELDS,
        *map(figure, ("fresh", "stale", "unindexed", "gone")),
        Field("problem"),
        figure("base_rows", "rows", of="rows"),
        Field("location", "location", of="definition.root"),
    )

    definition: Definition
    fresh: int = 0  # files that are unchanged since they were indexed
    stale: int = 0  # files that have changed since they were indexed
    unindexed: int = 0  # files that are not in the index
    gone: int = 0  # deleted files that are in the index
    rows: int = 0  # rows of the fresh files
    problem: str = ""  # why the index cannot be used, and nothing is counted; empty if it can be used


def show(server: Server, table: str) -> list[Coverage]:
    """Return the coverage of each index of a table, sorted by index name.

    Raises NotFound for an unknown table, Unsupported as `format_of` and `table_files` do, CorruptIndex and ServerError.
    """
    base = tables.describe(server, table)
    format = format_of(server, base)
    indexes = tables.indexes(server, base)
    values = tables.partitions(server, base) if base.partition_columns else [()]
    located = folders(server, base, values)
    return [
        Coverage(definition=definition, problem=why)
        if why
        else _coverage(server, base, format, located, index_table, definition)
        for index_table, definition, why in indexes
    ]


def _coverage(
    server: Server,
    base: Table,
    format: str,
    located: dict[tuple[str | None, ...], str],
    index_table: Table,
    definition: Definition,
) -> Coverage:
    """Return the coverage of an index.

    `located` has the folder of each partition of the base table, by partition values. `format` is the format of the
    base files.
    """
    segments = slots.segments(slots_of(server, index_table), definition)
    state = table_files(server, base, format, located, [(definition, segments)])
    results = look_up_files(state, [TRUE] * len(state.partitions), {"": definition}, _everything)
    whole = Counter(file.freshness for file in results.whole_files)
    return Coverage(
        definition=definition,
        fresh=sum(len(lookup.unit.paths) for lookup in results.lookups),
        stale=whole[Freshness.STALE],
        unindexed=whole[Freshness.UNINDEXED],
        gone=results.deleted,
        rows=sum(int(lookup.unit.rows.sum()) for lookup in results.lookups),
    )


def _everything(lookups: Sequence[Lookup]) -> list[LookupResult]:
    """Return, for each lookup, a result that selects all rows.

    No index rows are read, because coverage is computed from the numbers of files and rows alone.
    """
    return [LookupResult(lookup.unit.rows, np.ones(len(lookup.unit.paths), bool), {}, 0) for lookup in lookups]
