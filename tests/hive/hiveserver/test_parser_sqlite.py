"""Random conditions and their negations over two columns with NULLs, with sqlite3 as the oracle."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hive_bitmap.core.columns import Column
from hive_bitmap.core.predicates.nodes import And, Constant, Or, Predicate, columns_of, simplify
from hive_bitmap.core.selecting.key_matches import matches
from hive_bitmap.hive.hiveserver.parser import parse

COLUMNS = [Column("a", "int"), Column("s", "string")]
NUMBERS = [None, -2, 0, 1, 2, 2147483647]
TEXTS = [None, "", "a", "ab", "abc", "b", "\u00e9"]
ROWS = [(a, s) for a in NUMBERS for s in TEXTS]
KEYS = {"a": pa.array([a for a, _ in ROWS], pa.int32()), "s": pa.array([s for _, s in ROWS], pa.string())}
DATABASE = sqlite3.connect(":memory:")
DATABASE.executescript("PRAGMA case_sensitive_like = ON; CREATE TABLE t (a INTEGER, s TEXT)")
DATABASE.executemany("INSERT INTO t VALUES (?, ?)", ROWS)

OPS = st.sampled_from(["=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
VALUES = {
    "a": st.sampled_from(["-2", "0", "1", "(2)", "2147483647", "2147483648", "-9000000000", "NULL"]),
    "s": st.sampled_from(["''", "'a'", "'ab'", "('b')", "'AND'", "'\u00e9'", "NULL"]),
}


@st.composite
def leaf_texts(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from(["a", "s"]))
    value = VALUES[column]
    written = draw(st.sampled_from([column, f"`{column}`", f"({column})", f"t.{column}", column.upper()]))
    no = draw(st.sampled_from(["", "NOT "]))
    forms = [
        f"{written} {draw(OPS)} {draw(value)}",
        f"{draw(value)} {draw(st.sampled_from(['=', '<', '>=', '<>', '<=>']))} {written}",
        f"{written} {no}IN ({', '.join(draw(st.lists(value, min_size=1, max_size=3)))})",
        f"{written} {no}BETWEEN {draw(value)} AND {draw(value)}",
        f"{written} IS {no}NULL",
        draw(st.sampled_from(["TRUE", "FALSE", "NULL", "1 = 1", "1 = 0"])),
    ]
    if column == "s":
        forms.append(f"{written} {no}LIKE {draw(st.sampled_from(['NULL', quoted('a%'), quoted('ab'), quoted('%')]))}")
    return draw(st.sampled_from(forms))


def quoted(text: str) -> str:
    return f"'{text}'"


def joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Join texts with and without parentheses, so that sqlite's operator precedence decides what they mean."""
    forms = [
        "{} AND {}",
        "{} OR {}",
        "({}) AND {}",
        "{} OR ({})",
        "NOT ({} OR {})",
        "NOT {} AND {}",
        "NOT NOT ({}{:.0})",
    ]
    return st.builds(lambda form, x, y: form.format(x, y), st.sampled_from(forms), inner, inner)


CONDITIONS = st.recursive(leaf_texts(), joined, max_leaves=12)


def sqlite_rows(text: str) -> list[int]:
    condition = text.replace("<=>", "IS")
    return [row - 1 for (row,) in DATABASE.execute(f"SELECT rowid FROM t WHERE {condition} ORDER BY rowid")]


def rows_of(predicate: Predicate) -> NDArray[np.bool_]:
    match predicate:
        case And(children):
            return np.asarray(np.logical_and.reduce([rows_of(child) for child in children]))
        case Or(children):
            return np.asarray(np.logical_or.reduce([rows_of(child) for child in children]))
        case Constant(value):
            return np.full(len(ROWS), value is True)
        case _:
            return matches(predicate, KEYS[predicate.column])  # type: ignore[arg-type, union-attr]


def our_rows(predicate: Predicate) -> Sequence[int]:
    return np.flatnonzero(rows_of(predicate)).tolist()


@settings(max_examples=400)
@given(CONDITIONS)
@example("a = 1 OR s = 'a' AND NOT a = 2 OR a BETWEEN 0 AND 1 AND s IS NULL")
@example("NOT a NOT IN (1, NULL) OR NOT (s <=> NULL)")
@example("a < 2147483648 AND NOT a > -9000000000")
def test_conditions_and_their_negations_select_the_rows_of_sqlite(text: str) -> None:
    for condition in (text, f"NOT ({text})", f"NOT (NOT ({text}) AND a = 1)"):
        predicate = parse(condition, COLUMNS, "t")
        assert our_rows(predicate) == sqlite_rows(condition), condition
        assert simplify(predicate) == predicate
        assert columns_of(predicate) <= {"a", "s"}
