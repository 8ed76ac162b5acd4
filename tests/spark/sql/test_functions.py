"""ddl/functions.sql: the same as the Python functions, of bitmaps in every form that SQL can take apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import hive_bitmap
from hive_bitmap.core.bitmaps import ENCODINGS, selection
from hive_bitmap.core.bitmaps.keybytes import key_bytes
from hive_bitmap.core.grammar.script import split

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

FUNCTIONS = Path(__file__).parents[3] / "ddl" / "functions.sql"
PAIRS = 150
CALLS = """SELECT
    plain_from_gap(gap_a, gaps_a) AS from_gap, gap_count(gap_a, gaps_a) AS gap_count,
    plain_or(plain_from_ewah(ewah_a), plain_and(plain_a, X'')) AS from_ewah, ewah_count(ewah_a) AS ewah_count,
    bitmap_count(plain_a) AS plain_count, plain_rows(plain_a) AS rows, plain_contains(plain_a, row) AS contains,
    plain_and(plain_from_gap(gap_a, gaps_a), plain_b) AS both, plain_or(plain_a, plain_from_ewah(ewah_b)) AS any,
    plain_and_not(plain_from_ewah(ewah_a), plain_from_gap(gap_b, gaps_b)) AS only_a
    FROM bitmaps ORDER BY id"""


@pytest.fixture(scope="module")
def functions(spark: SparkSession) -> Iterator[str]:
    """The current database, which has the functions."""
    name = f"t_{uuid4().hex[:12]}"
    before = spark.catalog.currentDatabase()
    spark.sql(f"CREATE DATABASE {name}")
    spark.catalog.setCurrentDatabase(name)
    for part in split(FUNCTIONS.read_text()):
        hive_bitmap.sql(spark, part.text)
    yield name
    spark.catalog.setCurrentDatabase(before)
    spark.sql(f"DROP DATABASE {name} CASCADE")


def random_rows(random: np.random.Generator, n: int) -> NDArray[np.bool_]:
    "Which of n rows are set: at least one, scattered, or with runs of set and of unset ones."
    found = random.random(n) < random.choice([0.002, 0.05, 0.5, 0.98])
    for start in random.integers(0, n, 2) * random.integers(0, 2):
        found[start : start + random.integers(1, n + 1)] = random.random() < 0.5
    found[random.integers(n)] = True
    return found


def stored(rows: NDArray[np.bool_], encoding: str) -> list[pa.Array]:
    "The stored columns of one bitmap, a value each."
    return [column[-1:] for column in ENCODINGS[encoding].encode(key_bytes(rows.astype(np.uint8))[1])]


def decoded(rows: NDArray[np.bool_], encoding: str) -> NDArray[np.uint8]:
    "The bits that this package reads out of the stored columns."
    where = selection.layout([len(rows)])
    bits = selection.nothing(where)
    ENCODINGS[encoding].decode_into(bits, stored(rows, encoding), where.starts[:1], where.rows)
    return bits


def columns_of(side: str, bitmaps: list[NDArray[np.bool_]]) -> dict[str, pa.Array]:
    "The columns of a table that holds the bitmaps in each encoding."
    found = {
        encoding: [pa.concat_arrays(each) for each in zip(*(stored(rows, encoding) for rows in bitmaps), strict=True)]
        for encoding in ("plain", "gap", "ewah")
    }
    names = {"plain": found["plain"][0], "gap": found["gap"][0], "gaps": found["gap"][1], "ewah": found["ewah"][0]}
    return {f"{name}_{side}": column for name, column in names.items()}


def expected(a: NDArray[np.bool_], b: NDArray[np.bool_], row: int) -> dict[str, Any]:
    "What CALLS answers, by the functions of this package."
    where = selection.layout([len(a)])
    left, right = decoded(a, "gap"), decoded(b, "ewah")
    counts = {
        f"{encoding}_count": int(ENCODINGS[encoding].cardinalities(stored(a, encoding), where.rows)[0])
        for encoding in ("gap", "ewah", "plain")
    }
    return counts | {
        "from_gap": left.tobytes(),
        "from_ewah": decoded(a, "ewah").tobytes(),
        "rows": selection.rows(left, where, 0).tolist(),
        "contains": row in selection.rows(left, where, 0),
        "both": (left & right).tobytes(),
        "any": (left | right).tobytes(),
        "only_a": selection.and_not(left, right).tobytes(),
    }


def test_equal_to_the_functions_of_python(spark: SparkSession, functions: str) -> None:
    random = np.random.default_rng(6)
    sizes = [1, 7, 8, 9, 63, 64, 65, 127, 128, *random.integers(1, 5000, PAIRS - 9).tolist()]
    pairs = [(random_rows(random, n), random_rows(random, n)) for n in sizes]
    rows = [int(random.integers(-3, n + 10)) for n in sizes]
    table = pa.table(
        columns_of("a", [a for a, _ in pairs])
        | columns_of("b", [b for _, b in pairs])
        | {"id": pa.array(range(PAIRS)), "row": pa.array(rows, pa.int32())}
    )
    spark.createDataFrame(table).createOrReplaceTempView("bitmaps")
    got = spark.sql(CALLS).toArrow().to_pylist()
    spark.catalog.dropTempView("bitmaps")
    only_a = [row.pop("only_a") for row in got]  # as long as the longer one, which zeros may follow
    wanted = [expected(a, b, row) for (a, b), row in zip(pairs, rows, strict=True)]
    assert [one.ljust(len(row["both"]), b"\0") for one, row in zip(only_a, got, strict=True)] == [
        row.pop("only_a") for row in wanted
    ]
    for row in got:
        row["from_ewah"] = row["from_ewah"].ljust(len(row["both"]), b"\0")
    assert got == wanted


def test_words_of_other_writers(spark: SparkSession, functions: str) -> None:
    "A run of ones, the empty bitmap of JavaEWAH, and gaps whose runs are in pieces."
    ones, pieces = "array(131L, 2L, 4L, 8589934597L, 4L, 0L)", "X'FFFF0000', array(1, 2, 3, 1)"
    found = spark.sql(
        f"SELECT ewah_count({ones}), plain_rows(plain_from_ewah({ones})), ewah_count(array(0L, 1L, 4L, 0L, 0L)),"
        f" plain_from_ewah(array(0L, 1L, 4L, 0L, 0L)), gap_count({pieces}), hex(plain_from_gap({pieces}))"
    )
    [row] = found.collect()
    assert tuple(row) == (129, [*range(128), 130], 0, b"", 24, "FFFFFF00000000")


def test_null_gives_null(spark: SparkSession, functions: str) -> None:
    calls = "plain_from_gap(NULL, array(1)), plain_from_gap(X'00', NULL), gap_count(NULL, array(1)), ewah_count(NULL)"
    calls += ", plain_from_ewah(NULL), plain_and(NULL, X'00'), plain_or(X'00', NULL), plain_and_not(NULL, NULL)"
    calls += ", plain_rows(NULL), plain_contains(NULL, 1), plain_contains(X'01', NULL)"
    [row] = spark.sql(f"SELECT {calls}").collect()
    assert [value for value in row if value is not None] == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("plain_from_gap(X'00', array(1, 1))", "each byte 0x00 or 0xFF takes one length, of 1 or more"),
        ("plain_from_gap(X'00FF', array(1))", "each byte 0x00 or 0xFF takes one length, of 1 or more"),
        ("gap_count(X'01', array(1))", "each byte 0x00 or 0xFF takes one length, of 1 or more"),
        ("gap_count(X'00', array(0))", "each byte 0x00 or 0xFF takes one length, of 1 or more"),
        ("ewah_count(array(1L, 2L, 3L))", "its words are more or less than it says"),
        ("ewah_count(array(1L, 1L, 4L, 8589934592L, 0L))", "its words are more or less than it says"),
        ("plain_from_ewah(array(1L, 1L, 4L, 8589934592L, 0L))", "its words are more or less than it says"),
    ],
)
def test_what_contradicts_itself_is_an_error(spark: SparkSession, functions: str, call: str, message: str) -> None:
    with pytest.raises(PySparkException, match=message):
        spark.sql(f"SELECT {call}").collect()


def test_other_sessions_have_them_too(spark: SparkSession, functions: str) -> None:
    other = spark.newSession()
    [row] = other.sql(f"SELECT {functions}.plain_rows({functions}.plain_and(X'0F', X'3C'))").collect()
    assert row[0] == [2, 3]
