"""A driver that inserts into a table, for as long as it is told, beside another one at the same metastore.

Its index follows the table. Meanwhile the driver counts by the index and by Spark alone. It prints a line of JSON.
"""

from __future__ import annotations

import json
import sys
import time

import hive_bitmap
from tests.asking import OFF, under

TABLE = "both"
COUNT = f"SELECT count(*) FROM {TABLE} WHERE k = 3"
PARTITIONS = 3


def main() -> None:
    conf, name, seconds = json.loads(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    spark = hive_bitmap.session(None, app_name=name, master="local[2]", conf=conf)

    def plain() -> int:
        with under(spark, OFF):
            spark.sql(f"REFRESH TABLE {TABLE}")
            return int(spark.sql(COUNT).collect()[0][0])

    end, inserted, wrong = time.monotonic() + seconds, 0, []
    while time.monotonic() < end:
        spark.sql(f"INSERT INTO {TABLE} PARTITION (p = {inserted % PARTITIONS}) VALUES (3, '{name}')")
        inserted += 1
        before, found, after = plain(), int(spark.sql(COUNT).collect()[0][0]), plain()
        if not before <= found <= after:  # rows are only added
            wrong.append((before, found, after))
    waited = hive_bitmap.refreshed(spark, 120)
    sys.stdout.write(json.dumps({"inserted": inserted, "wrong": wrong, "waited": waited}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
