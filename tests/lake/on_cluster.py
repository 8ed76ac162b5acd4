"""Run by test_iceberg_cluster: an Iceberg table is read in part by executors, which have our classes from the jar."""

from __future__ import annotations

import sys
from pathlib import Path

import hive_bitmap
from hive_bitmap.spark.session import session
from tests.lake import conftest
from tests.lake.test_iceberg import make, require_counted, require_narrowed
from tests.servers import jars

TABLE = "lake.d.t"


def main(folder: Path) -> None:
    """Make a table with an index in a new warehouse in this folder, and compare answers with plain Spark's."""
    found = sorted(jars.resolve("lake", jars.listed("lake")).glob("*.jar"))
    conf = {
        "spark.jars": ",".join(map(str, found)),
        "spark.sql.extensions": conftest.EXTENSIONS[1],
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(folder / "iceberg"),
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.ui.explainMode": "simple",
    }
    spark = session(folder / "warehouse", app_name="cluster", master="local-cluster[1,1,1024]", conf=conf)
    hive_bitmap.disable(spark)
    spark.sql("CREATE DATABASE d")
    spark.sql("CREATE DATABASE lake.d")
    make(spark, TABLE, files=2)
    spark.sql(f"DELETE FROM {TABLE} WHERE id IN (7, 507, 10007) OR id BETWEEN 2000 AND 2100")
    require_narrowed(spark, TABLE)
    require_counted(spark, TABLE)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
