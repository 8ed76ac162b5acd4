"""A small star schema with real shapes (dates, NULLs, skew, late and missing dimensions), and a year of flights.

`sales` is Parquet in small row groups, `refunds` ORC and partitioned by year; most tables have indexes, `airports` and
`promotions` have none. Everything is drawn from one seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

import hive_bitmap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = Sequence[Mapping[str, Any]]
FIRST_DAY = date(2023, 1, 1)
CITIES = ["Anchorage", "Boston", "Chicago", "Denver", "El Paso", "Fresno"]
STATES = {"Anchorage": "AK", "Boston": "MA", "Chicago": "IL", "Denver": "CO", "El Paso": "TX", "Fresno": "CA"}
CATEGORIES = ["Books", "Music", "Shoes", "Sports", None]
CHANNELS = ["web"] * 12 + ["store"] * 6 + ["catalog", "phone", None]
SEGMENTS = ["AUTOMOBILE", "BUILDING", "MACHINERY", None]


@dataclass(frozen=True)
class Dimension:
    """A table: its columns (name -> Spark type), its indexes, and a function from a seed to its rows."""

    columns: Mapping[str, str]
    indexes: Sequence[str | Sequence[str]]
    rows: Callable[[random.Random], Rows]
    partitioned: str = ""
    format: str = "parquet"


def _day(rng: random.Random) -> date:
    return FIRST_DAY + timedelta(days=int(730 * rng.random() ** 0.7))


def _sales(rng: random.Random) -> Rows:
    rows = []
    for sale in range(2400):
        day = FIRST_DAY + timedelta(days=sale * 730 // 2400)  # as sales arrive: in the order of time
        rows.append(
            {
                "sale_id": sale,
                "day": day if rng.random() > 0.02 else None,
                "store_id": min(rng.randrange(1, 9), rng.randrange(1, 14)),
                "item_id": int(60 * rng.random() ** 2) + 1,
                "customer_id": None if rng.random() < 0.1 else rng.randrange(1, 130),
                "channel": rng.choice(CHANNELS),
                "quantity": rng.choice([1, 1, 1, 2, 3, 10, None]),
                "amount": Decimal(rng.randrange(100, 99999)) / 100 if rng.random() > 0.03 else None,
                "returned": rng.choice([True, False, False, False, None]),
                "sold_at": datetime(day.year, day.month, day.day, rng.randrange(24), tzinfo=timezone.utc),
                "note": f"note {rng.randrange(30)}",
            }
        )
    return rows


def _refunds(rng: random.Random) -> Rows:
    days = [_day(rng) for _ in range(500)]
    return [
        {
            "sale_id": rng.randrange(2600),
            "day": day,
            "store_id": rng.randrange(1, 9),
            "reason": rng.choice(["damaged", "late", "late", "wrong item", None]),
            "refunded": Decimal(rng.randrange(100, 9999)) / 100,
            "year": day.year,
        }
        for day in days
    ]


def _flights(rng: random.Random) -> Rows:
    rows = []
    for flight in range(1500):
        day = FIRST_DAY + timedelta(days=flight * 365 // 1500)
        gone = rng.random() > 0.05
        rows.append(
            {
                "year": day.year,
                "month": day.month,
                "day": day.day,
                "carrier": rng.choice(["UA"] * 5 + ["AA"] * 4 + ["B6", "DL", "EV", "HA", "OO"]),
                "flight": rng.randrange(1, 300),
                "tailnum": f"N{rng.randrange(40):03d}" if gone else None,
                "origin": rng.choice(["EWR", "JFK", "LGA"]),
                "dest": rng.choice(["ORD"] * 6 + ["LAX"] * 4 + ["BOS", "ANC", "HNL", "SEA"]),
                "dep_time": rng.randrange(500, 2359) if gone else None,
                "arr_delay": rng.randrange(-40, 200) if gone else None,
                "distance": rng.choice([187, 719, 1400, 2475, 4983]),
            }
        )
    return rows


TABLES = {
    "sales": Dimension(
        {"sale_id": "bigint", "day": "date", "store_id": "int", "item_id": "int", "customer_id": "int",
         "channel": "string", "quantity": "int", "amount": "decimal(9,2)", "returned": "boolean",
         "sold_at": "timestamp", "note": "string"},
        ["day", "store_id", "item_id", "customer_id", "channel", "quantity", "returned", ("store_id", "channel")],
        _sales,
    ),
    "refunds": Dimension(
        {"sale_id": "bigint", "day": "date", "store_id": "int", "reason": "string", "refunded": "decimal(9,2)",
         "year": "int"},
        ["reason", "store_id", "day"], _refunds, "year", "orc",
    ),
    "stores": Dimension(
        {"store_id": "int", "city": "string", "state": "string", "opened": "date"},
        ["city", "state", "store_id"],
        lambda rng: [
            {"store_id": n, "city": CITIES[n % 6], "state": STATES[CITIES[n % 6]] if n != 5 else None,
             "opened": FIRST_DAY - timedelta(days=100 * n)}
            for n in range(1, 12)
        ],
    ),
    "items": Dimension(
        {"item_id": "int", "category": "string", "brand": "string", "price": "decimal(7,2)"},
        ["category", "brand", "item_id"],
        lambda rng: [
            {"item_id": n, "category": CATEGORIES[n % 5], "brand": f"Brand#{n % 7}", "price": Decimal(n * 3) / 2}
            for n in range(1, 55)
        ],
    ),
    "customers": Dimension(
        {"customer_id": "int", "name": "string", "segment": "string", "born": "date"},
        ["segment", "customer_id"],
        lambda rng: [
            {"customer_id": n, "name": f"Customer {n:03d}", "segment": rng.choice(SEGMENTS),
             "born": date(1950 + n % 50, 1 + n % 12, 1 + n % 28) if n % 9 else None}
            for n in range(1, 121)
        ],
    ),
    "dates": Dimension(
        {"day": "date", "year": "int", "month": "int", "weekday": "int", "holiday": "boolean"},
        ["month", "year", "holiday"],
        lambda rng: [
            {"day": day, "year": day.year, "month": day.month, "weekday": day.isoweekday(), "holiday": day.day == 25}
            for day in (FIRST_DAY + timedelta(days=n) for n in range(730))
        ],
        format="orc",
    ),
    "promotions": Dimension(
        {"item_id": "int", "day": "date", "percent": "int"}, [],
        lambda rng: [{"item_id": n % 60, "day": _day(rng), "percent": n % 5 * 10} for n in range(80)],
    ),
    "flights": Dimension(
        {"year": "int", "month": "int", "day": "int", "carrier": "string", "flight": "int", "tailnum": "string",
         "origin": "string", "dest": "string", "dep_time": "int", "arr_delay": "int", "distance": "int"},
        ["carrier", ("origin", "dest"), "dep_time", "month", "tailnum"], _flights,
    ),
    "airports": Dimension(
        {"faa": "string", "name": "string", "tz": "int"}, [],
        lambda rng: [{"faa": faa, "name": f"Airport {faa}", "tz": tz} for faa, tz in
                     [("ORD", -6), ("LAX", -8), ("BOS", -5), ("ANC", -9), ("EWR", -5), ("JFK", -5), ("XNA", None)]],
    ),
    "carriers": Dimension(
        {"carrier": "string", "name": "string"}, ["carrier"],
        lambda rng: [{"carrier": code, "name": f"Airline {code}"} for code in ("UA", "AA", "B6", "DL", "HA", "ZZ")],
    ),
}  # fmt: skip


def make(spark: SparkSession, folder: Path, seed: int = 7) -> None:
    """Create all tables and indexes in the current database."""
    rng = random.Random(seed)
    for name, table in TABLES.items():
        _create(spark, name, table, table.rows(rng), folder / name)
        if table.indexes:
            hive_bitmap.build(spark, name, [[i] if isinstance(i, str) else list(i) for i in table.indexes])


def _create(spark: SparkSession, name: str, table: Dimension, rows: Rows, folder: Path) -> None:
    columns = ", ".join(f"{column} {kind}" for column, kind in table.columns.items())
    by = f" PARTITIONED BY ({table.partitioned})" if table.partitioned else ""
    spark.sql(f"CREATE TABLE {name} ({columns}) USING {table.format}{by} LOCATION '{folder}'")
    if not table.partitioned:
        _write(table, rows, folder, parts=3)
        return
    for value in sorted({row[table.partitioned] for row in rows}):
        _write(table, [r for r in rows if r[table.partitioned] == value], folder / f"{table.partitioned}={value}", 2)
    spark.sql(f"MSCK REPAIR TABLE {name}")


def _write(table: Dimension, rows: Rows, folder: Path, parts: int) -> None:
    """The rows in a few files of small blocks."""
    folder.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([(c, _arrow(kind)) for c, kind in table.columns.items() if c != table.partitioned])
    size = -(-len(rows) // parts)
    for part in range(parts):
        chunk = pa.Table.from_pylist(list(rows[part * size : (part + 1) * size]), schema=schema)
        path = folder / f"part-{part}.{table.format}"
        if table.format == "orc":
            orc.write_table(chunk, path, stripe_size=1, batch_size=64)
        else:
            pq.write_table(chunk, path, row_group_size=80)


def _arrow(kind: str) -> pa.DataType:
    if kind.startswith("decimal"):
        precision, scale = kind[8:-1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return {
        "bigint": pa.int64(), "int": pa.int32(), "string": pa.string(), "date": pa.date32(), "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", "UTC"),
    }[kind]  # fmt: skip
