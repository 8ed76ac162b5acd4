"""Choose which fields of reports the commands print.

Tables show some fields of a report; JSON and CSV have all fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hive_bitmap.core.explaining.measures import moment, seconds, size, thousands
from hive_bitmap.core.explaining.reports import Field, figure

if TYPE_CHECKING:
    from hive_bitmap.spark.maintaining.clean import Leftover
    from hive_bitmap.spark.maintaining.show import IndexStatus

# The columns of tables whose order is not that of the record.
_INDEX = ("index", "columns", "type", "encoding")
_BUILT = ("base_files", "base_rows", "base_bytes", "index_rows", "index_bytes", "unindexed", "seconds")
BUILD_COLUMNS = (*_INDEX, *_BUILT)
REBUILD_COLUMNS = (*_INDEX, "files_read", "bytes_read", *_BUILT)
PREVIEW_COLUMNS = ("index", "partitions_changed", "files_read", "bytes_read", "why", "seconds")

LEFTOVER_FIELDS = (
    Field("path", "folder"),
    figure("bytes", "size", size),
    Field("why", "why"),
    Field("what", "what"),
)


def behind_its_table(status: IndexStatus) -> str:
    """Describe how far an index is behind its table, and its last refresh error.

    Return "" if the index is not behind and its last refresh did not fail.
    """
    last, lag = status.last_refresh, round(status.lag)
    failure = (
        f"; its last refresh, at {moment(last.author.started)}, failed: {last.error}" if last and last.error else ""
    )
    if not lag and not failure:
        return ""
    size_of_new = size(status.unindexed_bytes + status.stale_bytes)
    return f"{status.definition.name} is {seconds(lag)} behind its table, by {size_of_new}{failure}"


def leftover_record(leftover: Leftover, dry_run: bool) -> dict[str, Any]:
    """Return the record of a folder that a build left behind.

    The field `what` says why or for how long the folder is kept. If the folder is due for deletion, `what` says that it
    was deleted or, with `dry_run`, that it would be deleted. The field `seconds` is the number of seconds for which the
    folder is still kept.
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
