"""The warehouse of `bench.questions`, as Spark writes it: orders by day, visits, customers, refunds, and a view.

All values are functions of the row's number and of SEED. Orders have 60 daily partitions, each of a file of
one row group, and columns of arrays and structs; visits are ORC in buckets; refunds are a text table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import md5

from pyspark.sql import SparkSession

import hive_bitmap

SEED = 20260101
DAYS, BUCKETS = 60, 64
FULL_ROWS = 5_000_000  # of orders; the other tables have their share of them
VISITS, CUSTOMERS, REFUNDS = 0.6, 0.04, 0.07  # a row of orders
COUNTRIES, PAGES = 60, 20_000
INVOICE = 16  # hexadecimal digits
STEPS = 1_000_003  # of a random number

REVENUE = "count(*), sum(amount)"  # of orders, in the indexes of columns that revenue is asked by
INDEXED = (
    ("orders", ("status", "channel", "country", "customer"), REVENUE),
    ("orders", ("discount", "id", "invoice", "hour(created) AS hour"), ""),
    ("visits", ("kind", "url", "customer", "date_trunc('DAY', at) AS day"), ""),
    ("customers", ("email", "tier"), ""),
    ("refunds", ("reason",), ""),
)  # tables, columns or expressions with an index each, and the aggregates that these indexes store


@dataclass(frozen=True)
class Sizes:
    """Rows of each table."""

    orders: int
    visits: int
    customers: int
    refunds: int


def sizes(orders: int) -> Sizes:
    """Return the rows of each table beside so many orders."""
    return Sizes(orders, int(VISITS * orders), int(CUSTOMERS * orders), int(REFUNDS * orders))


def invoice(order: int) -> str:
    """Return the invoice of the order of this number."""
    return md5(str(order).encode(), usedforsecurity=False).hexdigest()[:INVOICE]


def make(spark: SparkSession, orders: int, progress: Callable[[str], None] = lambda done: None) -> Sizes:
    """Create and fill the tables and the view in the current database."""
    rows = sizes(orders)
    for name, statements in {
        "orders": _orders(rows),
        "visits": _visits(rows),
        "customers": _customers(rows),
        "refunds": _refunds(rows),
        "view": ["CREATE VIEW phone_orders AS SELECT id, country, status, amount FROM orders WHERE channel = 'phone'"],
    }.items():
        progress(name)
        for statement in statements:
            spark.sql(statement)
    return rows


def index(spark: SparkSession, progress: Callable[[str], None] = lambda done: None) -> None:
    """Create the indexes."""
    for table, columns, aggregates in INDEXED:
        progress(f"indexes of {table}")
        hive_bitmap.build(spark, table, list(columns), aggregates=aggregates)


def _orders(rows: Sizes) -> list[str]:
    columns = {
        "id": "id * 3 + 1",
        "customer": f"int({rows.customers} * pow({_random('customer')}, 2))",
        "invoice": f"substring(md5(string(id)), 1, {INVOICE})",
        "status": _of({"paid": 0.4, "shipped": 0.3, "delivered": 0.2395, "returned": 0.06, "fraud": 0.0005}, "status"),
        "channel": _of({"web": 0.55, "app": 0.3, "shop": 0.1, "phone": 0.05}, "channel"),
        "country": f"concat('C', lpad(int({COUNTRIES} * pow({_random('country')}, 3)), 2, '0'))",
        "created": f"timestamp_seconds(1767225600 + id * {DAYS * 86400} div {rows.orders} + {_below(60, 'second')})",
        "amount": f"CAST(pow({_random('amount')}, 4) * 900 + 5 AS DECIMAL(10, 2))",
        "discount": f"IF({_random('discount')} < 0.8, NULL, CAST({_below(20, 'rate')} / 100D AS DECIMAL(4, 2)))",
        "note": f"concat_ws(' ', {', '.join(_word(f'note {n}') for n in range(6))})",
        "tags": f"transform(sequence(0, {_below(3, 'tags')}), n -> elt(1 + int(n + id) % 5, {_TAGS}))",
        "address": f"named_struct('city', {_word('city')}, 'zip', lpad({_below(90_000, 'zip')}, 5, '0'))",
        "lines": "transform(sequence(1, 1 + int(id % 3)), "
        "n -> named_struct('product', int((id * n) % 9973), 'pieces', n))",
    }
    day = f"date_add(DATE'2026-01-01', int(id * {DAYS} div {rows.orders}))"
    return [
        "CREATE TABLE orders (id BIGINT, customer INT, invoice STRING, status STRING, channel STRING, country STRING, "
        "created TIMESTAMP, amount DECIMAL(10, 2), discount DECIMAL(4, 2), note STRING, tags ARRAY<STRING>, "
        "address STRUCT<city: STRING, zip: STRING>, lines ARRAY<STRUCT<product: INT, pieces: INT>>) "
        "PARTITIONED BY (day DATE) STORED AS PARQUET",
        f"INSERT INTO orders SELECT /*+ REPARTITION({DAYS}, day) */ * FROM "
        f"(SELECT {_listed(columns)}, {day} AS day FROM range({rows.orders}))",
    ]


def _visits(rows: Sizes) -> list[str]:
    columns = {
        "id": "id",
        "customer": f"int({rows.customers} * {_random('visitor')})",
        "url": f"concat('/shop/page-', int({PAGES} * pow({_random('url')}, 2)))",
        "kind": _of({"view": 0.8, "click": 0.15, "order": 0.04, "error": 0.01}, "kind"),
        "browser": _of({"Firefox": 0.3, "Chrome": 0.5, "Safari": 0.2}, "browser"),
        "at": f"timestamp_seconds(1767225600 + id * {DAYS * 86400} div {rows.visits})",
        "milliseconds": f"int({_below(2000, 'took')})",
    }
    return [
        "CREATE TABLE visits (id BIGINT, customer INT, url STRING, kind STRING, browser STRING, at TIMESTAMP, "
        f"milliseconds INT) USING orc CLUSTERED BY (customer) INTO {BUCKETS} BUCKETS",
        f"INSERT INTO visits SELECT /*+ REPARTITION({BUCKETS}, customer) */ * FROM "
        f"(SELECT {_listed(columns)} FROM range({rows.visits}))",
    ]


def _customers(rows: Sizes) -> list[str]:
    columns = {
        "id": "int(id)",
        "email": "concat('c', id, '@example.org')",
        "tier": _of({"basic": 0.9, "gold": 0.09, "platinum": 0.01}, "tier"),
        "country": f"concat('C', lpad(int({COUNTRIES} * pow({_random('home')}, 3)), 2, '0'))",
    }
    return [
        "CREATE TABLE customers (id INT, email STRING, tier STRING, country STRING) STORED AS PARQUET",
        f"INSERT INTO customers SELECT {_listed(columns)} FROM range({rows.customers})",
    ]


def _refunds(rows: Sizes) -> list[str]:
    columns = {
        "order_id": "id * 40",
        "reason": _of({"damaged": 0.5, "late": 0.3, "wrong": 0.19, "lost": 0.01}, "reason"),
        "amount": f"CAST({_random('refund')} * 100 AS DECIMAL(10, 2))",
    }
    return [
        "CREATE TABLE refunds (order_id BIGINT, reason STRING, amount DECIMAL(10, 2)) "
        "ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' STORED AS TEXTFILE",
        f"INSERT INTO refunds SELECT {_listed(columns)} FROM range(0, {rows.refunds}, 1, 4)",
    ]


_TAGS = "'new', 'gift', 'b2b', 'express', 'fragile'"
_WORDS = "'blue', 'small', 'door', 'evening', 'careful', 'manager', 'garden', 'paper', 'heavy', 'river'"


def _listed(columns: dict[str, str]) -> str:
    return ", ".join(f"{value} AS {name}" for name, value in columns.items())


def _random(name: str) -> str:
    """The expression of a number in [0, 1), of its own for each row and name."""
    return f"(pmod(xxhash64(id, '{name}', {SEED}), {STEPS}) / {STEPS}D)"


def _below(most: int, name: str) -> str:
    return f"pmod(xxhash64(id, '{name}', {SEED}), {most})"


def _word(name: str) -> str:
    return f"elt(1 + int({_below(10, name)}), {_WORDS})"


def _of(shares: dict[str, float], name: str) -> str:
    """The expression of one of these values, each of about its share of the rows."""
    cases, limit = [], 0.0
    for value, share in shares.items():
        limit += share
        cases.append(f"WHEN {_random(name)} < {limit:.6f} THEN '{value}'")
    return f"CASE {' '.join(cases)} ELSE '{next(iter(shares))}' END"
