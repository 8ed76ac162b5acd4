"""What the JVM is told of a text that may be an index statement, as far as no session is asked."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.errors import InvalidStatement
from hive_bitmap.spark.building.publish import IndexToDrop
from hive_bitmap.spark.catalyst.index_statements import answer, index_of, record_of

NOBODY: Any = SimpleNamespace(  # in place of a session, of which only the current catalog is asked
    catalog=SimpleNamespace(currentCatalog=lambda: "spark_catalog"),
    conf=SimpleNamespace(get=lambda name, default: default),
)
INDEX = Definition(
    name="i",
    database="db",
    table="t",
    columns=(Column("k", "int"), Column("a b", "decimal(5,2)")),
    index_table="elsewhere",
    root="file:/w/i",
    id="0" * 32,
    comment="it's",
    properties=(("a", "b"),),
)


@pytest.mark.parametrize(
    "doomed",
    [
        IndexToDrop(INDEX, frozenset({"file:/w/i/g2", "file:/w/i/g1"})),
        IndexToDrop(replace(INDEX, type="COMPACT", index_table=""), frozenset(), "of another owner"),
    ],
)
def test_indexes_to_drop_go_to_the_jvm_and_come_back(doomed: IndexToDrop) -> None:
    told = json.loads(json.dumps(record_of(doomed)))
    assert told["live"] == sorted(doomed.live)
    assert index_of(told) == doomed


@pytest.mark.parametrize("harm", ["hive_bitmap.encoding", "hive_bitmap.id"])
def test_what_comes_back_otherwise_is_not_dropped(harm: str) -> None:
    told = record_of(IndexToDrop(INDEX, frozenset()))
    told["properties"][harm] = "other"
    with pytest.raises(InvalidStatement, match=r"^the JVM has not returned the record"):
        index_of(told)


@pytest.mark.parametrize("kind", ["parse", "run", "doomed"])
@pytest.mark.parametrize(
    "text", ["SELECT 1", "DROP TABLE", "DROP DATABASE d", "UPDATE INDEX SET a = 1", "REFRESH INDEX", "REFRESH TABLE i"]
)
def test_a_text_that_is_none_is_left_to_spark(kind: str, text: str) -> None:
    assert answer(NOBODY, kind, text) == "null"


@pytest.mark.parametrize("kind", ["parse", "run"])
@pytest.mark.parametrize(
    "text",
    [
        "CREATE INDEX i ON t (a)",
        "CREATE INDEX i ON db.t USING btree (a) OPTIONS (x = 'y')",
        "DROP INDEX i ON t",
        "REFRESH INDEX i ON t",
        "UPDATE INDEX i ON t",
    ],
)
def test_where_a_catalog_without_indexes_is_current_statements_are_sparks(kind: str, text: str) -> None:
    beside: Any = SimpleNamespace(catalog=SimpleNamespace(currentCatalog=lambda: "jdbc"), conf=NOBODY.conf)
    assert answer(beside, kind, text) == "null"
    assert answer(beside, kind, text.replace("ON t", "ON jdbc.db.t").replace("ON db.t", "ON jdbc.db.t")) == "null"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "CREATE INDEX i ON",
            {
                "error": "line 1, column 18: mismatched input '<EOF>', expecting a name",
                "condition": "PARSE_SYNTAX_ERROR",
                "sqlstate": "42601",
            },
        ),
        (
            "CREATE INDEX i USING btree ON t (a)",
            {
                "error": "index type BTREE is not supported: use USING bitmap, which answers the same predicates",
                "condition": "UNSUPPORTED_FEATURE",
                "sqlstate": "0A000",
            },
        ),
        (
            "CREATE INDEX i ON TABLE t (a) AS 'none'",
            {
                "error": "unknown index type 'none'; known: BITMAP, COMPACT, AGGREGATE",
                "condition": "INVALID_PROPERTY_VALUE",
                "sqlstate": "42602",
            },
        ),
        (
            "DROP INDEX i -- \ud800",
            {
                "error": "line 1, column 17: half a surrogate pair is not a character, in 'DROP INDEX i -- \\ud800'",
                "condition": "PARSE_SYNTAX_ERROR",
                "sqlstate": "42601",
            },
        ),
    ],
)
def test_an_error_has_the_words_and_the_class_of_spark(text: str, error: dict[str, str]) -> None:
    assert json.loads(answer(NOBODY, "parse", text)) == error
