"""Make the records that the commands print, and define their tables.

A record is for an index, a build, a state, a preview or a leftover folder. Tables show some of its fields; JSON and CSV
have all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hive_bitmap.cli.output import Field
from hive_bitmap.core.explaining.measures import moment, seconds, size

if TYPE_CHECKING:
    from hive_bitmap.core.index.definition import Definition
    from hive_bitmap.core.index.refresh_record import RefreshRecord
    from hive_bitmap.spark.building.build import BuildReport
    from hive_bitmap.spark.building.preview import Preview
    from hive_bitmap.spark.maintaining.clean import Leftover
    from hive_bitmap.spark.maintaining.show import IndexStatus, PartitionStatus


def thousands(value: int | None) -> str:
    """Return a number with commas between thousands; None is a dash.

    >>> thousands(336776), thousands(None)
    ('336,776', '-')
    """
    return "-" if value is None else f"{value:,}"


INDEX_FIELDS = (
    Field("index", "index"),
    Field("columns", "columns", ", ".join),
    Field("type", "type"),
    Field("encoding", "encoding", lambda encoding: encoding or "-"),
)
_FILES = (
    Field("base_files", "files", thousands, right=True),
    Field("base_rows", "rows", thousands, right=True),
    Field("base_bytes", "of", size, right=True),
)
_BUILT = (
    Field("index_rows", "index rows", thousands, right=True),
    Field("index_bytes", "size", size, right=True),
    Field("unindexed", "unindexed", lambda files: str(len(files)), right=True),
    Field("seconds", "time", seconds, right=True),
)
_READ = (Field("files_read", "files read", thousands, right=True), Field("bytes_read", "of", size, right=True))
BUILD_FIELDS = (*INDEX_FIELDS, *_FILES, *_BUILT)
REBUILD_FIELDS = (*INDEX_FIELDS, *_READ, *_FILES, *_BUILT)
PREVIEW_FIELDS = (
    Field("index", "index"),
    Field("partitions_changed", "partitions", thousands, right=True),
    *_READ,
    Field("why", "why", lambda why: ", ".join(f"{count:,} {reason}" for reason, count in why.items()) or "-"),
    Field("seconds", "about", seconds, right=True),
)
PARTITION_PREVIEW_FIELDS = (
    Field("index", "index"),
    Field("partition", "partition", lambda name: name or "-"),
    Field("what", "what"),
    *_READ,
)
_STATE = tuple(Field(name, name, thousands, right=True) for name in ("fresh", "stale", "unindexed", "gone"))
_SIZE = (Field("base_rows", "rows", thousands, right=True), Field("index_bytes", "size", size, right=True))
_BUILD = Field("built", "last build", lambda at: at or "-")
SHOW_FIELDS = (*INDEX_FIELDS, *_STATE, *_SIZE, _BUILD)
PARTITION_FIELDS = (Field("partition", "partition"), *_STATE, *_SIZE, _BUILD)
LEFTOVER_FIELDS = (
    Field("path", "folder"),
    Field("bytes", "size", size, right=True),
    Field("why", "why"),
    Field("what", "what"),
)


def report_record(report: BuildReport) -> dict[str, Any]:
    """Return the record of an index in a build; sizes are in bytes."""
    return {
        **definition_record(report.definition),
        "base_files": report.base_files,
        "base_bytes": report.base_bytes,
        "base_rows": report.base_rows,
        "files_read": report.files_read,
        "bytes_read": report.bytes_read,
        "shards": report.shards,
        "shards_kept": report.shards_kept,
        "partitions_dropped": report.partitions_dropped,
        "changed_meanwhile": report.changed,
        "index_rows": report.index_rows,
        "index_bytes": report.index_bytes,
        "seconds": round(report.seconds, 3),
        "unindexed": [{"path": path, "reason": reason} for path, reason in report.unindexed],
    }


def preview_record(preview: Preview) -> dict[str, Any]:
    """Return the record of what a rebuild would do for an index.

    Sizes are in bytes; `why` counts files by reason.
    """
    return {
        "index": preview.definition.name,
        "table": preview.definition.full_table,
        "files_read": preview.files,
        "bytes_read": preview.bytes,
        "why": preview.why,
        "seconds": round(preview.seconds, 1),
        "partitions_changed": len(preview.partitions),
        "partitions": preview_records(preview),
    }


def preview_records(preview: Preview) -> list[dict[str, Any]]:
    """Return a record for each partition that a rebuild would change.

    Sizes are in bytes.
    """
    return [
        {
            "index": preview.definition.name,
            "table": preview.definition.full_table,
            "partition": partition.name,
            "what": partition.what,
            "files_read": partition.files,
            "bytes_read": partition.bytes,
        }
        for partition in preview.partitions
    ]


def status_record(status: IndexStatus) -> dict[str, Any]:
    """Return the record of the state of an index.

    `fresh`, `stale`, `unindexed` and `gone` count base files, `keys` distinct keys.
    """
    return {
        **definition_record(status.definition),
        **_state(status),
        "location": status.definition.root,
        "comment": status.definition.comment,
        "where": status.definition.where,
        "enabled": status.definition.enabled,
        "auto_refresh": status.definition.auto_refresh,
        "refresh_interval": status.definition.refresh_interval,
        "keep_removed": status.definition.keep_removed,
        "lag_seconds": round(status.lag),
        "last_refresh": None if status.last_refresh is None else refresh_record(status.last_refresh),
        "next_rebuild": status.next_rebuild,
        "files_to_read": status.to_read,
        "bytes_to_read": status.bytes_to_read,
        "problem": status.problem,
        "segments": status.segments,
        "dead_rows": status.dead_rows,
        "partitions": [{"partition": partition.name, **_state(partition)} for partition in status.partitions],
    }


def behind_its_table(record: dict[str, Any]) -> str:
    """Return a sentence on an index that is behind its table.

    It is for an index that follows its table and is behind, or that could not be refreshed. Return "" otherwise.
    """
    last = record["last_refresh"] or {"error": ""}
    failure = f"; its last refresh, at {last['at']}, failed: {last['error']}" if last["error"] else ""
    if not record["lag_seconds"] and not failure:
        return ""
    size_of_new = size(record["unindexed_bytes"] + record["stale_bytes"])
    return f"{record['index']} is {seconds(record['lag_seconds'])} behind its table, by {size_of_new}{failure}"


def refresh_record(last: RefreshRecord) -> dict[str, Any]:
    """Return the record of the last refresh of an index."""
    return {
        "at": moment(last.author.started),
        "host": last.author.host,
        "process": last.author.pid,
        "seconds": last.seconds,
        "files": last.files,
        "error": last.error,
    }


def leftover_record(leftover: Leftover, dry_run: bool) -> dict[str, Any]:
    """Return the record of a folder that nothing references.

    `seconds` is how much longer it is kept.
    """
    deleted = "would be deleted" if dry_run else "deleted"
    waits = f"kept for {leftover.seconds / 3600:.1f} hours more"
    return {
        "path": leftover.path,
        "bytes": leftover.bytes,
        "why": leftover.why,
        "what": leftover.kept or (deleted if leftover.due else waits),
        "seconds": round(leftover.seconds),
    }


def _state(status: IndexStatus | PartitionStatus) -> dict[str, Any]:
    return {
        "fresh": status.fresh,
        "stale": status.stale,
        "unindexed": status.unindexed,
        "gone": status.gone,
        "stale_bytes": status.stale_bytes,
        "unindexed_bytes": status.unindexed_bytes,
        "base_rows": status.base_rows,
        "index_rows": status.index_rows,
        "index_bytes": status.index_bytes,
        **({} if status.keys is None else {"keys": status.keys}),
        "built": None if status.built is None else moment(status.built),
    }


def definition_record(definition: Definition) -> dict[str, Any]:
    """Return the definition of an index; `encoding` is None for COMPACT.

    `next_encoding` is present if the next rebuild will change the encoding.
    """
    return {
        "index": definition.name,
        "table": definition.full_table,
        "columns": list(definition.column_names),
        "type": definition.type,
        "encoding": definition.bitmap_encoding,
        **({"next_encoding": definition.next_encoding} if definition.next_encoding else {}),
        "compression": definition.compression,
        **({"properties": dict(definition.properties)} if definition.properties else {}),
        "index_table": definition.full_index_table,
    }


def details(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the names and values of a record as text for people.

    >>> details({"index_rows": 1090, "columns": ["a", "b"], "encoding": None})
    [('index rows', '1,090'), ('columns', 'a, b'), ('encoding', '-')]
    """
    return [(name.replace("_", " "), _detail(value)) for name, value in record.items()]


def _detail(value: Any) -> str:
    match value:
        case None | "":
            return "-"
        case bool():
            return str(value).lower()
        case int():
            return thousands(value)
        case list():
            return ", ".join(value)
        case dict():
            return ", ".join(f"{name.replace('_', ' ')} {_detail(item)}" for name, item in value.items() if item != "")
        case _:
            return str(value)
