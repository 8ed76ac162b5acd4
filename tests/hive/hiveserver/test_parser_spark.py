"""Spark is the oracle: what our tree says of every row of a table of all types is what `where` keeps."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from hive_bitmap.core.columns import Column
from hive_bitmap.core.predicates.nodes import And, Constant, Or, Predicate, Unknown, leaves_of
from hive_bitmap.core.selecting.key_matches import matches
from hive_bitmap.hive.hiveserver.parser import parse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TYPES = {
    "id": "int",
    "tiny": "tinyint",
    "small": "smallint",
    "a": "int",
    "big": "bigint",
    "s": "string",
    "v": "varchar(5)",
    "c": "char(4)",
    "flag": "boolean",
    "d": "date",
    "m": "decimal(5,2)",
    "wide": "decimal(38,10)",
    "f": "double",
    "r": "float",
    "ts": "timestamp",
    "n": "timestamp_ntz",
    "b": "binary",
    "lc": "string collate UTF8_LCASE",
    "user": "string",
    "end": "int",
    "odd name": "int",
}
COLUMNS = [Column(name, kind) for name, kind in TYPES.items()]
VALUES = {
    "tiny": "-128 -1 0 1 5 127 NULL",
    "small": "-32768 -1 0 7 32767 NULL",
    "a": "-2147483648 -5 0 1 2 3 2147483647 NULL",
    "big": "-9223372036854775808 -1 0 1 3 4294967296 9223372036854775807 NULL",
    "s": "'' 'a' 'A' 'ab' 'abc' 'abd' 'b' '\u00e9' '\u65e5\u672c' '\U0001f600' '%' 'x_y' 'today' NULL",
    "v": "'' 'a' 'ab' 'ab\u00a0' 'abc' 'b' NULL",
    "c": "'' 'a' 'ab' 'abcd' NULL",
    "flag": "TRUE FALSE NULL",
    "d": "DATE'1583-01-01' DATE'2020-02-28' DATE'2020-02-29' DATE'9999-12-31' NULL",
    "m": "-999.99 -1.50 0.00 0.01 1.00 1.50 999.99 NULL",
    "wide": "-1.5000000000 0.0000000001 1.0000000000 9999999999999999999999999999.9999999999 NULL",
    "f": "-1.5D 0.0D 1.5D double('NaN') double('-Infinity') double('-0.0') 1e300D NULL",
    "r": "-1.5F 0.0F 0.1F float('NaN') float('-0.0') NULL",
    "ts": "TIMESTAMP'2020-01-01T00:00:00Z' TIMESTAMP'2020-02-29T12:34:56.789012Z' NULL",
    "n": "TIMESTAMP_NTZ'2020-01-01T00:00:00' TIMESTAMP_NTZ'2021-06-01T01:00:00' NULL",
    "b": "X'' X'00' X'61' X'6162' NULL",
    "lc": "'a' 'A' 'b' 'B' '' NULL",
    "user": "'root' 'x' NULL",
    "end": "1 2 NULL",
    "odd name": "1 2 NULL",
}
ROWS = 97

NATIVE = r"""
tiny < 1000
NOT tiny < 1000
tiny > -129 AND NOT tiny >= 128
tiny IN (1, 300, -5000) OR tiny NOT IN (5, 300)
tiny NOT IN (5, NULL)
NOT (tiny <=> 1000)
tiny = 5Y OR small = 7S OR big = 3L
small <> 32768
a = -2147483648 OR a = 2147483648
a !> 2 AND a !< 1
a == 1 OR a != 2
big = -9223372036854775808
big IN (9223372036854775807, 1)
a BETWEEN 0 AND 2 AND NOT s = 'a'
a NOT BETWEEN 0 AND 2
NOT a BETWEEN 1 AND NULL
NOT NOT a = 1
! (a = 1 OR s IS NULL)
NOT (a = 1 AND (s = 'a' OR NOT flag))
a = 1 OR s = 'a' AND flag
(((a = 1)) OR ((a) = (2)))
1 < a AND 3 >= a
1 = 1 AND a = 1
a = NULL OR a <=> NULL
a <=> 1 OR NOT (a <=> 2)
a IS DISTINCT FROM 1
a IS NOT DISTINCT FROM NULL
NOT a IS NULL
flag
NOT flag
flag = TRUE OR FALSE = flag
flag <> TRUE
flag IN (TRUE, NULL)
flag IS TRUE
NOT flag IS TRUE
flag IS NOT FALSE
flag IS UNKNOWN
NOT (flag IS NOT UNKNOWN OR flag IS DISTINCT FROM FALSE)
s = 'a' OR s > 'b'
s >= '' AND s < 'abd'
s IN ('a', 'ab', NULL)
s LIKE 'ab%'
s NOT LIKE 'ab%' AND s LIKE '%'
s LIKE 'abc' OR s NOT LIKE ''
s LIKE NULL
s = 'today'
s < '日'
v = 'ab' OR v > 'ab'
v = 'ab '
v LIKE 'ab%' OR v IN ('b', '')
d = DATE '2020-02-29' OR d < date'1600-01-01'
d IN (DATE '2020-02-28', NULL)
DATE '2020-02-29' <= d
m = 1.5 OR m = 1
m < 1000 AND m > -1000
m IN (0.01, 1, 5000, NULL)
m <> 100000.5 AND m >= -.5
m BETWEEN 0 AND 1.
wide >= 1.0000000000
wide = 1 OR wide < 0.5
f IS NOT NULL AND ts IS NOT NULL
c IS NULL OR b IS NULL OR lc IS NULL OR n <=> NULL
end > 1 AND `odd name` = 2
`A` = 1 AND A IS NOT NULL
t.a = 1 OR `T`.`s` = 'a'
a /* x */ = -- y
 1 OR a = 2
a = 1 AND TRUE OR NULL
a IN (1) AND FALSE
"""

ASKED = r"""
f > 1
f = 0.0 OR f < -0.0
NOT f > 1.5
isnan(f)
f IN (0, 1.5) OR r = 0
r = 0.1
c = 'ab'
c IN ('a', 'ab  ')
c LIKE 'ab%'
t.f > 0 OR t.c = 'ab' AND `T`.f < 1
length(c) = 4
lc = 'a'
NOT lc = 'a'
lc LIKE 'A%'
s COLLATE UTF8_LCASE = 'A'
upper(s) = 'AB'
NOT length(s) > 1
s LIKE '%b%'
s LIKE 'x\_y'
s = 'it''s' OR s = 'a' 'b'
s = "a"
s RLIKE '^a' AND a = 1
s NOT RLIKE '^a'
s LIKE ANY ('a%', 'b%')
s || 'x' = 'ax'
try_add(a, 1) = 2
and(a = 1, a > 0)
a = 1 + 1
a % 2 = 0
a > 1.5
a = 1 IS NULL
(a = 1) = TRUE
a < 2 IN (TRUE)
CASE WHEN a = 1 AND a < 5 THEN TRUE ELSE a > 2 END
CASE a WHEN 1 THEN TRUE END OR flag
coalesce(a, 7) BETWEEN 5 AND 8 AND s IS NULL
if(a = 1 OR a = 2, TRUE, FALSE)
CAST(a AS STRING) = '1'
a::string = '1'
year(d) = 2020
d = '2020-02-29'
d > DATE '2020-1-1'
d >= DATE '2020-02-29' - INTERVAL 1 DAY
date_add(d, 1) = DATE '2020-03-01'
extract(MONTH FROM d) = 2
ts > TIMESTAMP '2020-01-15 00:00:00'
NOT ts <= TIMESTAMP '2020-01-15 00:00:00'
n < '2021-01-01'
b = X'61'
hex(b) = '61'
m > 1.234
m = 1.5BD
wide < 1e3
wide < 1000000000000000000000000000000
big = 1.0
big < 9223372036854775808
NOT big < 9223372036854775808
a >= -99999999999999999999
big <> 9223372036854775808
big > 1e3
flag < TRUE
flag = 'true'
(flag OR flag IS NULL) = TRUE
user = 'root'
trim(BOTH 'a' FROM s) = 'b'
substring(s, 1, 2) IN ('ab', 'x')
s BETWEEN 'a' AND concat('a', 'c')
5 BETWEEN tiny AND 10
(NOT flag) IS NULL
"""


class Table(NamedTuple):
    frame: DataFrame
    columns: dict[str, pa.Array]


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> Iterator[Table]:
    """Table `t`: each column's values in an order of its own, so that rows pair them in many ways."""
    shuffled = random.Random(3)
    rows = []
    for row in range(ROWS):
        cells = [shuffled.choice(values.split(" ")) for values in VALUES.values()]
        rows.append(f"({row}, {', '.join(cells)})")
    spark.sql("CREATE DATABASE predicates")
    declared = ", ".join(f"`{name}` {kind}" for name, kind in TYPES.items())
    spark.sql(f"CREATE TABLE predicates.t ({declared}) USING parquet")
    spark.sql(f"INSERT INTO predicates.t VALUES {', '.join(rows)}")
    frame = spark.table("predicates.t").orderBy("id")
    arrow = frame.toArrow()
    yield Table(frame, {name: arrow[name].combine_chunks() for name in arrow.column_names})
    spark.sql("DROP DATABASE predicates CASCADE")


def truths(frame: DataFrame, texts: Sequence[str]) -> list[NDArray[np.bool_]]:
    """For each row (by id) whether Spark finds each condition TRUE."""
    asked = frame.selectExpr("id", *[f"coalesce(({text}), false) AS p{number}" for number, text in enumerate(texts)])
    answers = asked.toArrow().sort_by("id")
    return [np.asarray(answers[f"p{number}"].to_pylist(), dtype=bool) for number in range(len(texts))]


def selected(table: Table, predicate: Predicate) -> NDArray[np.bool_]:
    match predicate:
        case And(children):
            return np.asarray(np.logical_and.reduce([selected(table, child) for child in children]))
        case Or(children):
            return np.asarray(np.logical_or.reduce([selected(table, child) for child in children]))
        case Constant(value):
            return np.full(ROWS, bool(value))
        case Unknown():
            return np.full(ROWS, True)
        case _:
            return matches(predicate, table.columns[predicate.column])


def differing(table: Table, texts: Sequence[str], trees: Sequence[Predicate]) -> list[str]:
    """The conditions of which Spark's rows are not those of the tree, or, with an Unknown in it, not among them."""
    wrong = []
    for text, tree, sparks in zip(texts, trees, truths(table.frame, texts), strict=True):
        ours = selected(table, tree)
        is_exact = not any(isinstance(leaf, Unknown) for leaf in leaves_of(tree))
        if (ours != sparks).any() if is_exact else (sparks & ~ours).any():
            wrong.append(text)
    return wrong


def cases(texts: str) -> list[str]:
    return texts.strip().replace("-- y\n", "-- y\v").replace("\n", "\0").replace("\v", "\n").split("\0")


def test_what_is_ours_keeps_the_rows_that_spark_keeps(table: Table) -> None:
    trees = [parse(text, COLUMNS, "t") for text in cases(NATIVE)]
    assert not [leaf for tree in trees for leaf in leaves_of(tree) if isinstance(leaf, Unknown)]
    assert not differing(table, cases(NATIVE), trees)


def test_what_only_an_engine_evaluates_loses_no_row(table: Table) -> None:
    columns = [column for column in COLUMNS if column.name != "end"]  # with it, CASE .. END would be in doubt
    trees = [parse(text, columns, "t") for text in cases(ASKED)]
    assert all(any(isinstance(leaf, Unknown) for leaf in leaves_of(tree)) for tree in trees)
    assert not differing(table, cases(ASKED), trees)


@pytest.mark.parametrize("text", cases(NATIVE)[::6])
def test_where_keeps_the_same_rows(table: Table, text: str) -> None:
    kept = table.frame.where(text).toArrow()["id"].to_pylist()
    assert np.flatnonzero(selected(table, parse(text, COLUMNS, "t"))).tolist() == sorted(kept)


LEAVES = {
    "tiny": ("{} = 5", "{} < 200", "{} IN (1, 127, 128, NULL)", "{} NOT BETWEEN -1 AND 5", "-129 < {}"),
    "a": ("{} <> 2", "{} >= 1", "{} NOT IN (1, 2)", "{} <=> 3", "NOT ({} <=> 3)", "{} % 2 = 1", "{} > 0.5"),
    "big": ("{} > 4294967295", "{} <= 9999999999999999999", "{} = -1"),
    "s": ("{} LIKE 'ab%'", "{} NOT LIKE 'a%'", "{} >= 'abc'", "{} IN ('a', 'x', NULL)", "upper({}) = 'A'", "{} = NULL"),
    "v": ("{} = 'ab'", "{} < 'b'", "{} NOT IN ('a', NULL)"),
    "flag": ("{}", "{} IS TRUE", "{} IS NOT FALSE", "{} <=> NULL", "{} <> TRUE"),
    "d": ("{} = DATE '2020-02-29'", "{} BETWEEN DATE '2000-01-01' AND DATE '2020-02-28'", "year({}) = 2020"),
    "m": ("{} >= 1.5", "{} IN (1, 0.01, 7777)", "{} < 99999", "{} <> 1.005"),
    "wide": ("{} > 0.5", "{} = 1", "{} BETWEEN 0 AND 2"),
    "f": ("{} > 0", "{} <> 1.5", "{} = -0.0", "NOT {} < 1e10"),
    "c": ("{} = 'ab'", "{} IS NULL", "{} < 'b'"),
}


def random_text(dice: random.Random, depth: int) -> str:
    if depth == 0 or dice.random() < 0.2:
        column = dice.choice(list(LEAVES))
        return dice.choice(LEAVES[column]).format(dice.choice((column, f"`{column}`", f"t.{column}", f"({column})")))
    form = dice.choice(("{} AND {}", "{} OR {}", "({}) AND ({})", "({}) OR {}", "NOT ({})", "NOT {}", "! ({} OR {})"))
    return form.format(*[random_text(dice, depth - 1) for _ in range(form.count("{}"))])


@pytest.mark.parametrize("seed", range(5))
def test_random_conditions(table: Table, seed: int) -> None:
    dice = random.Random(seed)
    texts = [random_text(dice, 4) for _ in range(60)]
    assert not differing(table, texts, [parse(text, COLUMNS, "t") for text in texts])
