"""The command `jar`, which prints where the jar of Spark's extension is, and the options by which Spark loads it."""

from __future__ import annotations

import click

from hive_bitmap.spark.catalyst.extension_jar import EXTENSION, JAR

CONFIGURATION = f"--jars {JAR} --conf spark.sql.extensions={EXTENSION}"


@click.command(
    epilog="\b\nExample:\n  hive-bitmap jar\n"
    f"  spark-submit --jars $(hive-bitmap jar) \\\n    --conf spark.sql.extensions={EXTENSION} app.jar"
)
def jar() -> None:
    """Print the path of the jar that makes Spark use the indexes.

    With the jar and the setting in the example (or with spark.jars and spark.sql.extensions in spark-defaults.conf),
    queries in spark-submit, spark-shell, the Thrift server and the Connect server use the indexes, and index statements
    can be run as SQL. The application starts one Python process, with the interpreter in spark.hive_bitmap.python, or
    else the one that Spark uses for Python programs; hive_bitmap must be installed there. A JDK is not needed.
    """
    click.echo(str(JAR))
    click.echo(f"options for Spark: {CONFIGURATION}", err=True)
