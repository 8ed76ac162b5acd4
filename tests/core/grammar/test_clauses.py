"""The clauses of CREATE INDEX: each of hive.sql and openlookeng.sql is read to the value, or the error, given there."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.grammar.clauses import create_index, index_properties, properties
from hive_bitmap.core.grammar.cursor import Cursor
from hive_bitmap.core.grammar.statements import CreateIndex, TableName
from hive_bitmap.core.index.definition import OWN_PROPERTIES
from hive_bitmap.errors import InvalidProperty, InvalidStatement
from tests.core.grammar.corpus import cases, is_create, require

CLAUSES = {  # in Hive's order, with what each says
    "WITH DEFERRED REBUILD": {"deferred": True},
    "IDXPROPERTIES ('a'='b')": {"properties": (("a", "b"),)},
    "IN TABLE x": {"index_table": TableName("x")},
    "STORED AS PARQUET": {},
    "LOCATION '/w'": {"location": "/w"},
    "TBLPROPERTIES ('c'='d')": {"table_properties": (("c", "d"),)},
    "COMMENT 'e'": {"comment": "e"},
}
BEGIN = "i ON TABLE t (a) AS 'BITMAP'"


def created(text: str) -> CreateIndex | None:
    cursor = Cursor(text)
    cursor.expect("CREATE", "INDEX")
    return create_index(cursor)


@pytest.mark.parametrize(
    ("text", "expected"), [pytest.param(*case, id=name) for name, *case in cases() if is_create(case[0])]
)
def test_a_statement_is_read_as_the_file_says(text: str, expected: str) -> None:
    require(lambda: created(text), expected)


@given(st.sets(st.sampled_from(list(CLAUSES))))
def test_any_clauses_may_be_left_out(chosen: set[str]) -> None:
    said = [clause for clause in CLAUSES if clause in chosen]
    wanted = {name: value for clause in said for name, value in CLAUSES[clause].items()}
    found = created(" ".join(["CREATE INDEX", BEGIN, *said]))
    assert found == CreateIndex(name="i", table=TableName("t"), columns=("a",), **wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize(("first", "second"), list(combinations(CLAUSES, 2)))
def test_clauses_in_another_order_are_refused(first: str, second: str) -> None:
    with pytest.raises(InvalidStatement, match="in this order"):
        created(f"CREATE INDEX {BEGIN} {second} {first}")


def test_tables_of_another_catalog_are_sparks_unless_they_may_have_indexes() -> None:
    text = "i ON TABLE lake.db.t (a) AS 'BITMAP'"
    assert create_index(Cursor(text)) is None
    found = create_index(Cursor(text, lambda table: table.catalog == "lake"))
    assert found is not None and found.table == TableName("t", "db", "lake")


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("('a'='b')", (("a", "b"),)),
        ("('a'='b', 'a'='c')", (("a", "b"), ("a", "c"))),  # Hive's last one wins when they are put together
        ("(''='')", (("", ""),)),
        ("""("A b"='it''s')""", (("A b", "it's"),)),
    ],
)
def test_pairs(text: str, pairs: tuple[tuple[str, str], ...]) -> None:
    assert properties(Cursor(text)) == pairs


@pytest.mark.parametrize("text", ["()", "('a')", "('a'='b',)", "('a'=b)", "(a='b')", "('a'='b'", "'a'='b'"])
def test_what_is_no_list_of_pairs(text: str) -> None:
    with pytest.raises(InvalidStatement, match="mismatched input"):
        properties(Cursor(text))


@pytest.mark.parametrize("name", OWN_PROPERTIES)
def test_our_own_names_of_properties_are_in_lower_case(name: str) -> None:
    assert index_properties(Cursor(f"('{name.upper()}'='X', 'Other'='X')")) == ((name, "X"), ("Other", "X"))


def test_a_name_that_is_nearly_ours_is_refused() -> None:
    with pytest.raises(InvalidProperty, match="encoding"):
        index_properties(Cursor("('encodin'='gap')"))
