"""The tables of random plans: values at which types differ, in layouts at which indexes differ.

`t` is Parquet without partitions, `p` Parquet with partitions (one has no index, two share a folder), `o` partitioned
ORC; each has files that came after its indexes. `u` is small and has no index. The views are made under other settings.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import hive_bitmap
from tests.asking import under

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_VALUES = {  # name: (type, kind, values)
    "i": ("INT", "int", "0|1|2|3|3|3|7|-1|NULL|2147483647"),
    "j": ("SMALLINT", "int", "0|1|2|NULL"),
    "l": ("BIGINT", "long", "0|1|9000000000000000000|9223372036854775807|-9223372036854775808|NULL"),
    "s": ("STRING", "text", "'a'|'A'|'a1'|'A1'|'b'|'B '|''|'é'|'-0.0'|'3'|NULL"),
    "c": ("CHAR(4)", "text", "'a'|'ab'|'abcd'|''|NULL"),
    "v": ("VARCHAR(6)", "text", "'a'|'a '|'A'|'web'|NULL"),
    "f": ("FLOAT", "float", "0.0|'-0.0'|0.1|1.5|'NaN'|'Infinity'|NULL"),
    "d": ("DOUBLE", "float", "0.0|'-0.0'|0.1|2|'NaN'|'-Infinity'|1e300|NULL"),
    "m": ("DECIMAL(20,10)", "dec", "0.0000000001|0.0000000005|1|9999999999.9999999999|NULL"),
    "n": ("DECIMAL(38,0)", "dec", "0|1|99999999999999999999999999999999999999|NULL"),
    "w": ("DECIMAL(9,2)", "dec", "0.5|-1.25|9999999.99|NULL"),
    "x": ("DATE", "date", "'2024-02-29'|'2023-12-31'|'1970-01-01'|'1900-03-01'|NULL"),
    "y": ("TIMESTAMP", "ts", "'2024-03-10 02:30:00'|'2024-11-03 01:30:00'|'2024-01-01 00:00:00'|NULL"),
    "z": ("TIMESTAMP_NTZ", "ts", "'2024-03-10 02:30:00'|'2023-12-31 23:59:59.999999'|NULL"),
    "b": ("BOOLEAN", "bool", "true|false|NULL"),
}
_KINDS = {name: kind for name, (_, kind, _) in _VALUES.items()}
TABLES = {  # name: the kinds of its columns
    "t": _KINDS,
    "p": {**_KINDS, "pk": "text", "pn": "int"},
    "o": {**{name: kind for name, kind in _KINDS.items() if name != "z"}, "pd": "date"},
    "u": {"k": "int", "g": "text"},
    "legacy": {"i": "int", "total": "long", "most": "dec"},
    "folded": {"i": "int", "e": "ctext", "s": "text"},
    "tried": {"j": "int", "part": "float", "shown": "text"},
}
INDEXED = ("t", "p", "o")
SUMMED_BY, SUMS = ("j", "v"), "i, l, m, n, w, x, count(c), count(f)"  # the keys and aggregates of an index of each
ROWS = 240


def make(spark: SparkSession, rng: random.Random, folder: Path) -> None:
    """Make the tables, their indexes, what comes after these, and the views, in the current database."""
    types = {name: kind for name, (kind, _, _) in _VALUES.items()}
    with under(spark, {"spark.sql.ansi.enabled": "true", "spark.sql.session.timeZone": "UTC"}):
        _create(spark, "t", types, "", "parquet")
        _create(spark, "p", types, "pk STRING, pn INT", "parquet")
        _create(spark, "o", {name: kind for name, kind in types.items() if name != "z"}, "pd DATE", "orc")
        few = "SELECT CAST(id % 5 AS INT) AS k, concat('a', id % 3) AS g FROM range(9)"
        spark.sql(f"CREATE TABLE u USING parquet AS {few}")
        _grow(spark, rng, folder)
        encoding = rng.choice(["gap", "plain", "ewah", "roaring"])
        for name in INDEXED:
            where = "pk <> 'none'" if name == "p" else None
            columns: list[str | Sequence[str]] = [*(types if name != "o" else [c for c in types if c != "z"])]
            hive_bitmap.build(spark, name, [*columns, ("i", "s")], encoding=encoding, where=where)
            type = rng.choice(["BITMAP", "AGGREGATE"])
            hive_bitmap.build(spark, name, [SUMMED_BY], name="sums", type=type, aggregates=SUMS, where=where)
        _grow(spark, rng, folder)
        _views(spark)


def _create(spark: SparkSession, name: str, types: dict[str, str], partitioned: str, form: str) -> None:
    columns = ", ".join(f"{column} {kind}" for column, kind in types.items())
    last = f", {partitioned}" if partitioned else ""
    by = f"PARTITIONED BY ({', '.join(part.split()[0] for part in partitioned.split(', '))})" if partitioned else ""
    spark.sql(f"CREATE TABLE {name} ({columns}{last}) USING {form} {by}")


def _grow(spark: SparkSession, rng: random.Random, folder: Path) -> None:
    """Some more rows for each table, the first time in partitions that two partitions share."""
    spark.sql(f"INSERT INTO t {_rows(rng, list(_VALUES))}")
    for key, number in [("a", 1), ("a", 2), ("none", 1)]:
        spark.sql(f"INSERT INTO p PARTITION (pk = '{key}', pn = {number}) {_rows(rng, list(_VALUES))}")
    shared = (folder / "shared").as_uri()
    for key in ("b", "none"):
        spark.sql(f"ALTER TABLE p ADD IF NOT EXISTS PARTITION (pk = '{key}', pn = 9) LOCATION '{shared}'")
    spark.sql(f"INSERT INTO p PARTITION (pk = 'b', pn = 9) {_rows(rng, list(_VALUES))}")
    for day in ("2024-02-29", "1970-01-01"):
        rows = _rows(rng, [name for name in _VALUES if name != "z"])
        spark.sql(f"INSERT INTO o PARTITION (pd = DATE'{day}') {rows}")


def _rows(rng: random.Random, names: Sequence[str]) -> str:
    columns = []
    for name in names:
        kind, _, values = _VALUES[name]
        typed = ", ".join(f"CAST({value} AS {kind})" for value in values.split("|"))
        size, salt = values.count("|") + 1, rng.randrange(1 << 30)
        columns.append(f"element_at(array({typed}), CAST(pmod(hash(id, {salt}), {size}) + 1 AS INT)) AS {name}")
    return f"SELECT {', '.join(columns)} FROM range(0, {rng.choice([ROWS, 30])}, 1, 1)"


def _views(spark: SparkSession) -> None:
    with under(spark, {"spark.sql.ansi.enabled": "false"}):
        spark.sql("CREATE VIEW legacy AS SELECT i, sum(l) AS total, max(m) AS most FROM t GROUP BY i")
        spark.sql("CREATE VIEW folded AS SELECT i, s COLLATE UTF8_LCASE AS e, s FROM p WHERE i IS NOT NULL")
        shown = "j, CAST(s AS DOUBLE) AS part, concat('x', d) AS shown"
        spark.sql(f"CREATE VIEW tried AS SELECT {shown} FROM t WHERE CAST(s AS INT) IS NULL")
