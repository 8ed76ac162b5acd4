"""The star schema in DuckDB, for tests without Spark."""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Iterator

import duckdb
import pyarrow as pa

from hive_bitmap.columns import Column
from hive_bitmap.formats.columns import KeyColumn, arrow_type
from tests.integration.random_queries import STAR
from tests.integration.star import TABLES

COLUMNS = {name: [Column(column, kind) for column, kind in kinds.items()] for name, kinds in STAR.items()}
_WORDS = [  # what DuckDB calls otherwise
    (r"`", '"'), (r"<=>", "IS NOT DISTINCT FROM"), (r"\bMINUS\b", "EXCEPT"), (r"\bLEFT (SEMI|ANTI) JOIN", r"\1 JOIN"),
    (r"\b(\d+)[LS]\b", r"\1"), (r"\b([\d.]+)D\b", r"\1"), (r" RLIKE ", " SIMILAR TO "), (r"\bSTRING\b", "VARCHAR"),
]  # fmt: skip


@contextlib.contextmanager
def connected() -> Iterator[duckdb.DuckDBPyConnection]:
    """A few hundred rows of each table."""
    rng = random.Random(1)
    with duckdb.connect(config={"threads": 1}) as connection:
        for name, table in TABLES.items():
            rows = table.rows(rng)
            kept = [{column: row[column] for column in STAR[name]} for row in rows[:: len(rows) // 250 + 1]]
            schema = pa.schema([(c, arrow_type(KeyColumn(c, kind))) for c, kind in STAR[name].items()])
            connection.register("held", pa.Table.from_pylist(kept, schema))
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM held")
            connection.unregister("held")
        yield connection


def in_duckdb(text: str) -> str:
    """A query in DuckDB's words; some it refuses nevertheless."""
    for pattern, word in _WORDS:
        text = re.sub(pattern, word, text)
    return text
