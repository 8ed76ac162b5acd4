"""The base files of a table as the session's own reader would list them, and the tables that are their files.

Spark reads the visible files that lie directly in the folder of a table or partition. Where another reader, option or
layout could list differently there is doubt, and doubt is a full scan.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from hive_bitmap import stores
from hive_bitmap.errors import Unsupported
from hive_bitmap.formats import BY_INPUT_FORMAT, FORMATS, LAYOUTS
from hive_bitmap.metastore import serde
from hive_bitmap.metastore.table_info import Table
from hive_bitmap.stores import FileStatus

FOREIGN = {  # table properties of formats whose files are not their rows
    "iceberg": ("table_type", "iceberg"),
    "delta": ("spark.sql.sources.provider", "delta"),
    "hudi": ("spark.sql.sources.provider", "hudi"),
    "ACID": ("transactional", "true"),
}
HARMLESS_OPTIONS = re.compile(  # they concern writing only
    r"serialization\.format|path|compression|field\.delim|parquet\.((block|page|dictionary\.page)\.size.*|compress(ion)?"
    r"|memory\..*|enable\.dictionary|writer\..*|bloom\.filter\..*|page\.(row\.count\.limit|write-checksum\.enabled)"
    r"|(statistics|columnindex)\.truncate\.length)"
    r"|orc\.(compress.*|encoding\.strategy|stripe\..*|row\.(index\.stride|batch\.size|child\.limit)|create\.index|block\..*"
    r"|bloom\.filter\..*|dictionary\..*|write\..*|rows\.between\.memory\.checks|overwrite\.output\.file|memory\.pool"
    r"|base\.delta\.ratio|direct\.encoding\.columns|column\.encoding\.direct)",
    re.IGNORECASE,
)
OF_FORMATS = ("orc.", "parquet.")  # properties of Hive's tables that begin so are options to Spark, too
ORC_BY_PLACE = "orc.force.positional.evolution"
SETTINGS = {  # under any other value the session reads other files, columns or values than we do
    "spark.sql.caseSensitive": "false",
    "spark.sql.hive.manageFilesourcePartitions": "true",
    "spark.sql.hive.convertMetastoreParquet": "true",
    "spark.sql.hive.convertMetastoreOrc": "true",
    "spark.sql.orc.impl": "native",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.legacy.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.legacy.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.legacy.charVarcharAsString": "false",
    "spark.sql.readSideCharPadding": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.orc.mergeSchema": "false",
    ORC_BY_PLACE: "false",
    "mapreduce.input.pathFilter.class": "",
    "mapred.input.pathFilter.class": "",
}
OF_HADOOP = "spark.hadoop."  # before a setting of Hadoop's; those of a session go without it, too


def format_of(table: Table) -> str:
    """The format of a table's files, a key of FORMATS; raises Unsupported, with the reason, for what is none."""
    if table.kind not in ("MANAGED", "EXTERNAL"):
        kind = "temporary view" if table.kind == "TEMPORARY" else table.kind.lower()
        raise Unsupported(f"{table.full_name} is a {kind}: only tables of files are indexed")
    properties = {key.lower(): value.lower() for key, value in table.properties.items()}
    for kind, (key, value) in FOREIGN.items():
        if properties.get(key) == value or table.provider.lower() == kind:
            raise Unsupported(
                f"table {table.full_name} is {kind}: its files are not its rows, so they cannot be indexed"
            )
    if "storage_handler" in properties or not table.location:
        raise Unsupported(f"table {table.full_name} does not keep its rows in files")
    if table.by_folders:
        repair = f"MSCK REPAIR TABLE {table.sql_name}"
        raise Unsupported(
            f"the partitions of table {table.full_name} are not in the metastore: {repair} puts them there"
        )
    if table.provider == "hive":
        found = BY_INPUT_FORMAT.get(table.input_format)
        if found is None:
            name, known = table.input_format.rpartition(".")[2], ", ".join(FORMATS)
            raise Unsupported(f"table {table.full_name} is stored as {name}; formats that are indexed: {known}")
        if found.layout is not None:
            serde.require_known(table, found)
        elif found.name not in table.serde.lower():
            serde_doubt = f"{found.name} read by {table.serde}, which may see other rows"
            raise Unsupported(f"table {table.full_name} is {serde_doubt}")
        return found.name
    if table.provider.lower() not in FORMATS.keys() - LAYOUTS.keys():
        raise Unsupported(
            f"table {table.full_name} is USING {table.provider}; of such tables parquet and orc are indexed, "
            "others where they are STORED AS a format"
        )
    return table.provider.lower()


def why_unsupported(settings: Mapping[str, str], table: Table) -> str | None:
    """Why a reader with these settings might not list what `base_files` does; None where it does."""
    for name, value in settings.items():
        if SETTINGS.get(name.removeprefix(OF_HADOOP), value).lower() != value.lower():
            return f"{name} is {value}"
    if serde.reading(table):
        return serde.why_unsupported(settings)
    return odd_option(table)


def odd_option(table: Table) -> str | None:
    """The option or property of a table under which its readers may see other rows in its files; None without one."""
    said = {*table.options, *(key for key in table.properties if key.lower().startswith(OF_FORMATS))}
    odd = sorted(key for key in said if not HARMLESS_OPTIONS.fullmatch(key))
    return f"table option {odd[0]!r} may change what is read" if odd else None


def files_of(table: Table, folder: str) -> list[FileStatus]:
    """The files that a reader of the table finds in one of its folders, by path; raises Unsupported in doubt."""
    try:
        return serde.files(folder) if serde.reading(table) else base_files(folder)
    except NotADirectoryError as e:
        raise Unsupported(f"{folder} is a file, where a folder of table {table.full_name} should be") from e


def base_files(folder: str) -> list[FileStatus]:
    """The visible files of a folder that hold a byte, as Spark reads no others, by path; none where it is missing.

    Raises Unsupported for a folder that holds `name=value` folders: some readers take them for partitions.
    """
    try:
        found = stores.listing(folder)
    except FileNotFoundError:
        return []
    nested = [name for name in found.folders if "=" in name and is_visible(name)]
    if nested:
        raise Unsupported(f"folder {folder} holds {nested[0]!r}, which a reader may take for a partition")
    return [file for file in found.files if file.size and is_visible(file.path.rpartition("/")[2])]


def is_visible(name: str) -> bool:
    """Whether Spark reads rows of a file of that name.

    By `shouldFilterOutPathName` of
    https://github.com/apache/spark/blob/v4.0.0/core/src/main/scala/org/apache/spark/util/HadoopFSUtils.scala, without
    the Parquet summary files (`_metadata`, `_common_metadata`) that it lists, too: they hold no rows.
    """
    hidden = (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith("._COPYING_")
    return not hidden
