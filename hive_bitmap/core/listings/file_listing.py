"""List the base files of a table, and decide whether the table is supported.

Spark reads the visible files in the folder of a table or partition, without subfolders. A setting, a table option or
the layout of the folder may make a reader list other files or read other values. Then the table is not supported, and
Spark reads the table without indexes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from hive_bitmap.core import stores
from hive_bitmap.core.formats import BY_INPUT_FORMAT, FORMATS, LAYOUTS
from hive_bitmap.core.listings import serde
from hive_bitmap.core.stores import FileStatus, Listing
from hive_bitmap.core.stores.options import OF_HADOOP
from hive_bitmap.core.table_info import ICEBERG, Table
from hive_bitmap.errors import Unsupported

FOREIGN = {  # formats whose folders may hold files without current rows, and the table property of each format
    "iceberg": ("table_type", "iceberg"),
    "delta": ("spark.sql.sources.provider", "delta"),
    "hudi": ("spark.sql.sources.provider", "hudi"),
    "ACID": ("transactional", "true"),
}
HARMLESS_OPTIONS = re.compile(  # options that concern writing only
    r"serialization\.format|path|compression|field\.delim|parquet\.((block|page|dictionary\.page)\.size.*|compress(ion)?"
    r"|memory\..*|enable\.dictionary|writer\..*|bloom\.filter\..*|page\.(row\.count\.limit|write-checksum\.enabled)"
    r"|(statistics|columnindex)\.truncate\.length)"
    r"|orc\.(compress.*|encoding\.strategy|stripe\..*|row\.(index\.stride|batch\.size|child\.limit)|create\.index|block\..*"
    r"|bloom\.filter\..*|dictionary\..*|write\..*|rows\.between\.memory\.checks|overwrite\.output\.file|memory\.pool"
    r"|base\.delta\.ratio|direct\.encoding\.columns|column\.encoding\.direct)",
    re.IGNORECASE,
)
OF_ICEBERG = re.compile(  # options of a query that affect how Iceberg reads, but not which rows
    r"split-size|lookback|file-open-cost|vectorization-enabled|batch-size|locality|branch|tag|version|snapshot-id"
    r"|as-of-timestamp|snapshot_id|as_of_timestamp",
    re.IGNORECASE,
)
OF_QUERIES = ("mergeschema", "partitionoverwritemode")  # options that Spark adds, and that do not change what is read
OF_FORMATS = ("orc.", "parquet.")  # prefixes of properties of Hive tables that Spark also takes as options
STREAM_LOG = "_spark_metadata"  # the folder where a stream of Spark logs its output files
ORC_BY_POSITION = "orc.force.positional.evolution"
SETTINGS = {  # values of session settings with which Spark certainly reads the same files, columns and values as we do
    "spark.sql.caseSensitive": "false",
    "spark.sql.hive.manageFilesourcePartitions": "true",
    "spark.sql.hive.convertMetastoreParquet": "true",
    "spark.sql.hive.convertMetastoreOrc": "true",
    "spark.sql.orc.impl": "native",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.legacy.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.legacy.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.legacy.charVarcharAsString": "false",
    "spark.sql.readSideCharPadding": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.orc.mergeSchema": "false",
    ORC_BY_POSITION: "false",
    "mapreduce.input.pathFilter.class": "",
    "mapred.input.pathFilter.class": "",
}
FIELD_IDS, FIELD_ID = "spark.sql.parquet.fieldId.read.enabled", "parquet.field.id"


def format_of(table: Table) -> str:
    """Return the format of a table's files, a key of FORMATS.

    Raise Unsupported, with the reason, if the table cannot be indexed.
    """
    if table.kind not in ("MANAGED", "EXTERNAL"):
        kind = "temporary view" if table.kind == "TEMPORARY" else table.kind.lower()
        raise Unsupported(f"{table.full_name} is a {kind}: only tables of files are indexed")
    if table.lake is not None:
        if table.lake.problem:
            raise Unsupported(f"table {table.full_name} is {table.lake.kind}, and {table.lake.problem}")
        return table.lake.format
    properties = {key.lower(): value.lower() for key, value in table.properties.items()}
    for kind, (key, value) in FOREIGN.items():
        if properties.get(key) == value or table.provider.lower() == kind:
            raise Unsupported(
                f"table {table.full_name} is {kind}: its files do not show its current rows, so they cannot be indexed"
            )
    if "storage_handler" in properties or not table.location:
        raise Unsupported(f"table {table.full_name} does not store its rows in files")
    if table.by_folders:
        repair = f"MSCK REPAIR TABLE {table.sql_name}"
        raise Unsupported(f"the partitions of table {table.full_name} are not in the metastore: add them with {repair}")
    if table.provider == "hive":
        format_ = BY_INPUT_FORMAT.get(table.input_format)
        if format_ is None:
            name, names = table.input_format.rpartition(".")[2], ", ".join(FORMATS)
            raise Unsupported(
                f"table {table.full_name} is stored as {name}, which is not supported; supported: {names}"
            )
        if format_.has_layout:
            serde.require_known(table, format_)
        elif format_.name not in table.serde.lower():
            serde_doubt = f"{format_.name} read by {table.serde}, which may see other rows"
            raise Unsupported(f"table {table.full_name} is {serde_doubt}")
        return format_.name
    if table.provider.lower() not in FORMATS.keys() - LAYOUTS.keys():
        raise Unsupported(
            f"table {table.full_name} is USING {table.provider}; with USING, only parquet and orc are supported, other "
            "formats with STORED AS"
        )
    return table.provider.lower()


def require_plain_options(table: Table) -> None:
    """Raise Unsupported if a table's option keeps all queries from using an index."""
    why = None if serde.read_properties(table) else why_option_unsupported(table)
    if why is not None:
        raise Unsupported(f"{why}, so no query of table {table.full_name} would use its index")


def why_unsupported(settings: Mapping[str, str], table: Table) -> str | None:
    """Return which setting or option may change what Spark reads from a table.

    `settings` are settings of the session. An option belongs to the table. The result is a clause such as
    "spark.sql.caseSensitive is true"; None if this package reads the same as Spark.
    """
    for name, value in settings.items():
        if SETTINGS.get(name.removeprefix(OF_HADOOP), value).lower() != value.lower():
            return f"{name} is {value}"
    if settings.get(FIELD_IDS, "false").lower() != "false" and FIELD_ID in table.declared:
        return f"{FIELD_IDS} is {settings[FIELD_IDS]}, and columns of table {table.full_name} have field ids"
    if serde.read_properties(table):
        return serde.why_unsupported(settings)
    return why_option_unsupported(table)


def why_option_unsupported(table: Table) -> str | None:
    """Return why an option or property of the table may change what is read.

    The result is a clause with the name of the first such option in alphabetical order; None if there is no such
    option.
    """
    options = {*table.options, *(key for key in table.properties if key.lower().startswith(OF_FORMATS))}
    odd = sorted(key for key in options if not HARMLESS_OPTIONS.fullmatch(key))
    return f"table option {odd[0]!r} may change what is read" if odd else None


def why_query_unsupported(options: Iterable[str], table: Table) -> str | None:
    """Return why an option of a query may change what is read.

    `options` are the names of the query's reader options. The result is a clause with the name of the first such option
    in alphabetical order; None if there is no such option.
    """
    if table.lake is not None and table.lake.kind == ICEBERG:
        odd = sorted(name for name in options if not OF_ICEBERG.fullmatch(name))
    else:
        odd = sorted(name for name in options if not (HARMLESS_OPTIONS.fullmatch(name) or name.lower() in OF_QUERIES))
    return f"the query reads it with the option {odd[0]!r}, which may change what is read" if odd else None


def files_in(table: Table, folders: Sequence[str]) -> list[tuple[FileStatus, ...]]:
    """Return the base files in some folders of a table, sorted by path.

    There is a tuple of files for each of `folders`. Raises Unsupported if some readers may find other files.
    """
    try:
        listings = stores.listings(folders)
    except NotADirectoryError as e:
        raise Unsupported(f"{e.filename} is a file, but should be a folder of table {table.full_name}") from e
    files = serde.files if serde.read_properties(table) else base_files
    return [tuple(files(folder, listing)) for folder, listing in zip(folders, listings, strict=True)]


def require_no_stream(table: Table) -> None:
    """Raise Unsupported for a table that a stream has written.

    The log of the stream lists the files to read.
    """
    if stores.exists(f"{table.location}/{STREAM_LOG}"):
        raise Unsupported(why_stream(table.location))


def why_stream(folder: str) -> str:
    """Return why the output folder of a stream is not indexed."""
    return f"a stream of Spark writes into {folder}: only the files that {STREAM_LOG} names hold its rows"


def base_files(folder: str, listing: Listing | None) -> list[FileStatus]:
    """Return the visible, nonempty files of a listed folder, sorted by path.

    Spark reads exactly these files. `listing` is None for a missing folder, which has no files. Raises Unsupported for
    a folder that contains `name=value` folders, because some readers take such folders for partitions. Raises
    Unsupported also for the output of a stream.
    """
    if listing is None:
        return []
    if STREAM_LOG in listing.folders:
        raise Unsupported(why_stream(folder))
    nested = [name for name in listing.folders if "=" in name and is_visible(name)]
    if nested:
        raise Unsupported(f"folder {folder} holds {nested[0]!r}, which a reader may take for a partition")
    return [file for file in listing.files if file.size and is_visible(file.path.rpartition("/")[2])]


def is_visible(name: str) -> bool:
    """Return whether Spark reads rows from a file with this name.

    The rule is `shouldFilterOutPathName` in
    https://github.com/apache/spark/blob/v4.0.0/core/src/main/scala/org/apache/spark/util/HadoopFSUtils.scala, except
    that Parquet summary files (`_metadata`, `_common_metadata`) are left out: Spark lists summary files, but they hold
    no rows.
    """
    hidden = (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith("._COPYING_")
    return not hidden
