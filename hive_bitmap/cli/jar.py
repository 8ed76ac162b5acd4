"""`hive-bitmap jar`: where the extension for servers is, and how Spark is told of it."""

from __future__ import annotations

import click

from hive_bitmap.catalyst.enabling import EXTENSION, JAR

CONFIGURATION = f"--jars {JAR} --conf spark.sql.extensions={EXTENSION}"


@click.command(
    epilog="\b\nExample:\n  hive-bitmap jar\n"
    f"  spark-submit --jars $(hive-bitmap jar) \\\n    --conf spark.sql.extensions={EXTENSION} app.jar"
)
def jar() -> None:
    """Print the path of the jar with which Spark uses the indexes by itself.

    With it and the setting in the example (or both in spark-defaults.conf: spark.jars, spark.sql.extensions), queries
    of spark-submit, spark-shell, the Thrift server and the Connect server use the indexes, and index statements are
    SQL there. Such a server starts one Python process, by spark.hive_bitmap.python, or by what Spark's own Python
    programs run with; that Python needs hive_bitmap. No one needs a JDK.
    """
    click.echo(str(JAR))
    click.echo(f"options for Spark: {CONFIGURATION}", err=True)
