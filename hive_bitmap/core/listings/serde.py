"""Decide which tables with a SerDe are supported, and list their files.

Spark reads tables with a SerDe like Hive, through an input format and a SerDe. The values that are read depend on
properties of the table and of its partitions (`read_properties`). An index is valid for one set of such properties, so
all partitions must have the same properties. Hadoop lists the files of tables with a SerDe, by other rules than Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from hive_bitmap.core.formats import BY_INPUT_FORMAT, FileFormat
from hive_bitmap.core.stores import FileStatus, Listing
from hive_bitmap.core.stores.options import OF_HADOOP
from hive_bitmap.core.table_info import Partition, Table
from hive_bitmap.errors import Unsupported

REFUSED = {  # table properties with a single supported value: (value, the problem with other values)
    "skip.header.line.count": ("0", "Hive skips lines that Spark reads as rows"),
    "skip.footer.line.count": ("0", "Hive skips lines that Spark reads as rows"),
    "line.delim": ("\n", "its lines do not end as Hadoop's do"),
    "avro.schema.url": ("", "its Avro schema may change unseen: put it into avro.schema.literal"),
}
IRRELEVANT = re.compile(  # properties that do not change how files are read
    r"transient_lastddltime|last_modified_(by|time)|num(rows|files|partitions|fileserasurecoded)|totalsize|rawdatasize"
    r"|column_stats_accurate|comment|external(\.table\.purge)?|bucketing_version|auto\.purge|discover\.partitions"
    r"|spark\.sql\..*|hive_bitmap\..*|do_not_update_stats|stats_generated.*|transactional|created_.*",
    re.IGNORECASE,
)
DOUBTFUL_SETTINGS = re.compile(  # session settings that may change which files are listed, or which values are read
    r"textinputformat\.record\.delimiter|mapred(uce)?\.input\..*(recursive|subdirs|pathfilter\.class|maxlength)"
    r"|mapred\.(input\.dir\.recursive|input\.pathFilter\.class|linerecordreader\.maxlength)"
    r"|hive\.(lazysimple\..*|mapred\.supports\.subdirectories)|io\.compression\.codecs"
    r"|spark\.files\.ignore(Corrupt|Missing)Files",
    re.IGNORECASE,
)


def require_known(table: Table, format: FileFormat) -> None:
    """Raise Unsupported if Hive and Spark may read this table differently.

    `format` is the file format of the table. It must have a layout (`formats.LAYOUTS`).
    """
    if table.serde not in format.serdes:
        names = ", ".join(format.serdes)
        raise Unsupported(
            f"table {table.full_name} is {format.name} read by {table.serde}, which is not supported; "
            f"supported: {names}"
        )
    for key, value in {**table.properties, **table.options}.items():
        harmless, reason = REFUSED.get(key, (value, ""))
        if value != harmless:
            raise Unsupported(f"table {table.full_name} has {key} = {value!r}: {reason}")


def read_properties(table: Table) -> tuple[str, ...]:
    """Return the properties that determine how a table's files are read.

    The columns of the table also determine how files are read, but are left out. The result is () for Parquet and ORC,
    which need no SerDe.
    """
    format = BY_INPUT_FORMAT.get(table.input_format)
    if table.provider != "hive" or format is None or not format.has_layout:
        return ()
    relevant = _relevant({**table.properties, **table.options}.items())
    return (table.input_format, table.serde, *(f"{key}={value}" for key, value in sorted(relevant.items())))


def require_same_properties(table: Table, partitions: Iterable[Partition]) -> None:
    """Raise Unsupported for a partition whose read properties differ from the table's."""
    of_table = (table.input_format, table.serde, _relevant(table.options.items()))
    for partition in partitions if read_properties(table) and table.partition_columns else ():
        if (partition.input_format, partition.serde, _relevant(partition.properties)) != of_table:
            raise Unsupported(
                f"partition {partition.values} of table {table.full_name} has other read properties than the table: "
                "make them equal with ALTER TABLE .. PARTITION .. SET SERDEPROPERTIES"
            )


def why_unsupported(settings: Mapping[str, str]) -> str | None:
    """Return which session setting may change what Spark reads.

    `settings` maps names of settings to their values. A setting counts if its name matches DOUBTFUL_SETTINGS and its
    value is not "false": it may change which files are listed, or which values are read. The result is a clause such as
    "io.compression.codecs is x", for the first of these settings by name; None if there is none.
    """
    for name, value in sorted(settings.items()):
        if DOUBTFUL_SETTINGS.fullmatch(name.removeprefix(OF_HADOOP)) and value.lower() != "false":
            return f"{name} is {value}"
    return None


def files(folder: str, listing: Listing | None) -> list[FileStatus]:
    """Return the visible, nonempty files of a listed folder, sorted by path.

    Raises Unsupported if the folder is missing (`listing` is None), or if it has a visible subfolder. Some readers fail
    at a subfolder, and other readers read the files in it, too.
    """
    if listing is None:
        raise Unsupported(f"partition folder {folder} is missing; Spark cannot read this table either")
    nested = [name for name in listing.folders if is_visible(name)]
    if nested:
        raise Unsupported(f"folder {folder} contains the folder {nested[0]!r}, which readers may fail on")
    return [file for file in listing.files if file.size and is_visible(file.path.rpartition("/")[2])]


def is_visible(name: str) -> bool:
    """Return whether Hadoop lists a file with this name.

    The rule is `hiddenFileFilter` in
    https://github.com/apache/hadoop/blob/rel/release-3.4.1/hadoop-mapreduce-project/hadoop-mapreduce-client/hadoop-mapreduce-client-core/src/main/java/org/apache/hadoop/mapred/FileInputFormat.java,
    which the input formats of `formats.LAYOUTS` inherit.
    """
    return not name.startswith(("_", "."))


def _relevant(properties: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {key: value for key, value in properties if not IRRELEVANT.fullmatch(key)}
