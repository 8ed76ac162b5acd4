"""Run by test_foreign_readers in a JVM of its own: Hive's EWAH functions need JavaEWAH 0.3.2 where hive-exec is loaded.

Arguments: a folder to work in, the jar, the index tables' folders of `k` and of `s`, a Parquet file of the base table's
rows (key k, _bucketname, _offset, row). Writes `pairs.json` and `made.json` into the folder.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from hive_bitmap.spark.session import session

UDF = "org.apache.hadoop.hive.ql.udf.generic"
FUNCTIONS = {
    "ewah_bitmap": f"{UDF}.GenericUDAFEWAHBitmap",
    "ewah_bitmap_and": f"{UDF}.GenericUDFEWAHBitmapAnd",
    "ewah_bitmap_or": f"{UDF}.GenericUDFEWAHBitmapOr",
    "ewah_bitmap_empty": f"{UDF}.GenericUDFEWAHBitmapEmpty",
}
PAIRS = """
    SELECT k, s, _bucketname, _offset, ewah_bitmap_and(a._bitmaps, b._bitmaps) AS both,
        ewah_bitmap_or(a._bitmaps, b._bitmaps) AS either,
        ewah_bitmap_empty(ewah_bitmap_and(a._bitmaps, b._bitmaps)) AS empty
    FROM a JOIN b USING (_bucketname, _offset)
"""
MADE = "SELECT k, _bucketname, _offset, ewah_bitmap(row) AS _bitmaps FROM r GROUP BY k, _bucketname, _offset"


def main(folder: Path, jar: str, **views: str) -> None:
    spark = session(folder / "warehouse", master="local[1]", conf={"spark.driver.extraClassPath": jar})
    for name, function in FUNCTIONS.items():
        spark.sql(f"CREATE TEMPORARY FUNCTION {name} AS '{function}'")
    for name, path in views.items():
        spark.read.parquet(path).coalesce(1).createOrReplaceTempView(name)
    for name, query in (("pairs", PAIRS), ("made", MADE)):
        (folder / f"{name}.json").write_text(json.dumps([row.asDict() for row in spark.sql(query).collect()]))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], a=sys.argv[3], b=sys.argv[4], r=sys.argv[5])
