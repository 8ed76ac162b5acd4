"""The tables of the star schema, and one of odd types, each in a random form: format, partitions, encoding, indexes.

They are tables of `random_tables`, so its accidents may befall them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import hive_bitmap
from hive_bitmap.core.formats.key_values import KeyColumn, arrow_type
from tests.integration import random_tables as making
from tests.integration.random_tables import Table
from tests.spark.catalyst.star import TABLES, Dimension, Rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _oddities(rng: random.Random) -> Rows:
    first = datetime(2023, 3, 26, 1, 30, tzinfo=timezone.utc)
    return [
        {
            "sale_id": rng.randrange(2600),
            "store_id": rng.randrange(1, 9),
            "small": rng.choice([-128, 0, 1, 3, 127, None]),
            "ratio": rng.choice([0.5, 0.0, -0.0, 2.0, 1e300, float("nan"), None]),
            "single": rng.choice([0.5, 0.1, -0.0, float("inf"), float("nan"), None]),
            "code": rng.choice(["a", "ab", "abcd", "web", "MA", "", None]),
            "label": rng.choice(["web", "phone", "a ", "", "é", "MA", None]),
            "exact": rng.choice([Decimal("0.50"), Decimal("3.00"), Decimal("9.99"), Decimal("50.00"), None]),
            "moment": rng.choice([None, first, first + timedelta(hours=rng.randrange(9000))]),
            "day": date(2024, rng.choice([2, 11]), rng.randrange(1, 29)),
        }
        for _ in range(400)
    ]


ODDITIES = Dimension(
    {"sale_id": "bigint", "store_id": "int", "small": "tinyint", "ratio": "double", "single": "float",
     "code": "char(4)", "label": "varchar(6)", "exact": "decimal(9,2)", "moment": "timestamp", "day": "date",
     "kind": "string"},
    ["store_id", "small", "ratio", "code", "label", "exact", "moment", "day", ("store_id", "code")],
    _oddities, "kind",
)  # fmt: skip
DIMENSIONS = {**TABLES, "oddities": ODDITIES}


def make(spark: SparkSession, rng: random.Random, database: str, folder: Path, more: int) -> dict[str, Table]:
    """The sales and so many other tables, with indexes."""
    names = ["sales", *rng.sample([name for name in DIMENSIONS if name != "sales"], more)]
    tables = {name: _table(spark, rng, database, name, folder) for name in names}
    for name, table in tables.items():
        _build(spark, rng, table, DIMENSIONS[name])
    return tables


def _table(spark: SparkSession, rng: random.Random, database: str, name: str, folder: Path) -> Table:
    dimension = DIMENSIONS[name]
    partitioned = {dimension.partitioned: dimension.columns[dimension.partitioned]} if dimension.partitioned else {}
    columns = {column: kind for column, kind in dimension.columns.items() if column not in partitioned}
    root = folder / rng.choice(["plain", "a b", "100%25+é"]) / name
    draw = partial(_draw, dimension, tuple(columns))
    table = Table(f"{database}.{name}", rng.choice(["parquet", "parquet", "orc"]), columns, partitioned, {}, root)
    table = replace(table, draw=draw)
    making.create(spark, table, hive=rng.random() < 0.5)
    for _ in range(3 if partitioned else 0):
        making.add_partition(spark, rng, table)
    if not partitioned:
        root.mkdir(parents=True, exist_ok=True)
        table.folders[()] = root
    for place in table.folders.values():
        for _ in range(rng.randint(1, 3)):
            making.write_file(spark, rng, table, place)
    table.story.insert(0, f"{table.format}, partitioned by {[*partitioned]}")
    return table


def _draw(dimension: Dimension, columns: Sequence[str], rng: random.Random, count: int) -> pa.Table:
    """Rows that lie one behind the other in the dimension."""
    rows = dimension.rows(rng)
    first = rng.randrange(max(1, len(rows) - count))
    schema = pa.schema([(name, arrow_type(KeyColumn(name, dimension.columns[name]))) for name in columns])
    chosen = [{name: row[name] for name in columns} for row in rows[first : first + count]]
    return pa.Table.from_pylist(chosen, schema)


def _build(spark: SparkSession, rng: random.Random, table: Table, dimension: Dimension) -> None:
    """Most of the dimension's own indexes, maybe one of any two columns."""
    own = [[one] if isinstance(one, str) else list(one) for one in dimension.indexes]
    chosen = [one for one in own if rng.random() < 0.8 and not set(one) & set(table.partitioned)]
    if rng.random() < 0.4:
        pair = sorted(rng.sample(list(table.columns), 2), key=list(table.columns).index)
        chosen += [pair] if pair not in chosen else []
    if not chosen:
        return
    listed = {"type": rng.choice(["COMPACT", "AGGREGATE"])}
    kind = listed if rng.random() < 0.15 else {"encoding": rng.choice(["gap", "plain", "ewah", "roaring"])}
    hive_bitmap.build(spark, table.name, chosen, **kind)
    table.story.append(f"indexes {chosen} {kind}")
