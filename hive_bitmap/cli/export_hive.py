"""The command `export-hive`, which exports an index to a version of Hive that has indexes of its own."""

from __future__ import annotations

import sys
from dataclasses import replace

import click

from hive_bitmap.cli.invocation import Endpoint, messages


@click.command("export-hive")
@click.argument("table")
@click.argument("index")
@click.argument("folder")
@click.option("--name", help="Name of the index in Hive.  [default: hive_INDEX]")
@click.pass_obj
def export_hive(endpoint: Endpoint, table: str, index: str, folder: str, name: str | None) -> None:
    """Export INDEX of TABLE as an index of Hive 0.8 to 2.3.

    The files are written to FOLDER, which Hive must be able to read, and Hive's optimizer then uses them. The
    statements that register it in Hive are printed, or, with --hiveserver2, run by that server. INDEX must have the
    type COMPACT or the encoding ewah, and cover all files of TABLE as they are now. DROP INDEX in Hive removes the
    exported files.

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
    from hive_bitmap.hive.hiveserver.hive2_index import register_index

    with endpoint.server() as server:
        register_index(server, exported)
    messages().print(f"registered as index {exported.name} of {exported.definition.full_table}", markup=False)
