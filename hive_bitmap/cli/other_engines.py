"""Define the commands that make indexes available to other programs.

`jar` is for Spark servers and applications, `export-hive` for Hive 2.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import click

from hive_bitmap.cli.invocation import Endpoint, messages
from hive_bitmap.spark.jvm_bridge import EXTENSION, JAR

CONFIGURATION = f"--jars {JAR} --conf spark.sql.extensions={EXTENSION}"


@click.command(
    epilog="\b\nExample:\n  hive-bitmap jar\n"
    f"  spark-submit --jars $(hive-bitmap jar) \\\n    --conf spark.sql.extensions={EXTENSION} app.jar"
)
def jar() -> None:
    """Print the path of the jar that makes Spark use the indexes.

    With the jar and the setting in the example (or with spark.jars and spark.sql.extensions in spark-defaults.conf),
    queries in spark-submit, spark-shell, the Thrift server and the Connect server use the indexes, and index statements
    can be run as SQL. The application starts one Python process, with the interpreter in spark.hive_bitmap.python.
    Without this setting, the interpreter is the same as for Spark's Python programs. hive_bitmap must be installed for
    this interpreter. A JDK is not needed.
    """
    click.echo(str(JAR))
    click.echo(f"options for Spark: {CONFIGURATION}", err=True)


@click.command("export-hive")
@click.argument("table")
@click.argument("index")
@click.argument("folder")
@click.option("--name", help="Name of the index in Hive.  [default: hive_INDEX]")
@click.pass_obj
def export_hive(endpoint: Endpoint, table: str, index: str, folder: str, name: str | None) -> None:
    """Export INDEX of TABLE as an index of Hive 0.8 to 2.3.

    The files are written to FOLDER, which Hive must be able to read. The statements that register the index in Hive are
    printed. With --hiveserver2, the server runs these statements. Then Hive's optimizer uses the index. INDEX must have
    the type COMPACT or the encoding ewah, and cover all current files of TABLE. DROP INDEX in Hive removes the exported
    files.

    \b
    Example:
      hive-bitmap export-hive flights carrier hdfs://nn:8020/hive_indexes > carrier.sql
      hive-bitmap --hiveserver2 hive:10000 export-hive flights carrier hdfs://nn:8020/hive_indexes
    """
    from hive_bitmap.hive.hive2.ddl import script
    from hive_bitmap.hive.hive2.export import export

    with replace(endpoint, address=None).session() as spark:
        exported = export(spark, table, index, folder, name)
    messages().print(f"wrote {exported.rows} index rows under {exported.root}", soft_wrap=True, markup=False)
    if endpoint.address is None:
        sys.stdout.write(script(exported))
        return
    from hive_bitmap.hive.hiveserver.register import register_index

    with endpoint.server() as server:
        register_index(server, exported)
    messages().print(f"registered as index {exported.name} of {exported.definition.full_table}", markup=False)
