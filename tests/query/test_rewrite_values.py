"""Parameters as literals, and the settings of a session."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from hive_bitmap.errors import InvalidProperty
from hive_bitmap.query.rewrite.parameters import spelled
from hive_bitmap.query.rewrite.words import words
from hive_bitmap.query.settings import Settings, read
from hive_bitmap.query.tokens import tokenize


def written(text: str, arguments: Any) -> str:
    """The text with its parameters as the rewriting reads them."""
    tokens = tokenize(text)
    found = words(text, tokens, spelled(tokens, arguments))
    return found.source(0, found.end)


@pytest.mark.parametrize(
    ("text", "arguments", "wanted"),
    [
        ("a = :a AND b = :b", {"a": 1, "b": "x"}, "a = 1 AND b = 'x'"),
        ("a = ? AND b = ?", [-1, None], "a = (-1) AND b = ?"),
        ("a = ? AND b = ?", [True, date(2020, 2, 29)], "a = TRUE AND b = DATE '2020-02-29'"),
        ("a = :a AND b = :b", {"a": 1}, "a = 1 AND b = :b"),
        ("a = ?", ["it's"], "a = ?"),  # its spelling depends on settings
        ("a = ?", ["a\\b"], "a = ?"),
        ("a = ?", [1.5], "a = ?"),
        ("a = ?", [Decimal("1.5")], "a = ?"),
        ("a = ?", [2**63], "a = ?"),
        ("a = ?", [datetime(2020, 1, 1)], "a = ?"),
        ("a = ?", [date(1500, 1, 1)], "a = ?"),
        ("a[b] :c = 1", {"c": 1}, "a[b] :c = 1"),  # a field of a variant
        ("y:c IS NULL", {"c": 1}, "y:c IS NULL"),
        ("y :c IS NULL", {"c": 1}, "y :c IS NULL"),
        ("a BETWEEN:c AND?OR b", {"c": 1}, "a BETWEEN 1 AND?OR b"),
        ("a BETWEEN?AND?OR b IN (?,?)", [1, 2, 3, 4], "a BETWEEN 1 AND 2 OR b IN (3,4)"),
        ("a = ':a'", {"a": 1}, "a = ':a'"),
        ("a = 1", None, "a = 1"),
    ],
)
def test_parameters(text: str, arguments: Any, wanted: str) -> None:
    assert written(text, arguments) == wanted


@pytest.mark.parametrize(
    ("conf", "wanted"),
    [
        ({}, Settings()),
        ({"hive_bitmap.enabled": "FALSE"}, Settings(enabled=False)),
        ({"hive_bitmap.engine_reads_only": " true "}, Settings(engine_reads_only=True)),
        ({"hive_bitmap.strategy": "index only"}, Settings(strategy="index only")),
        ({"hive_bitmap.strategy": ""}, Settings()),
    ],
)
def test_settings(conf: dict[str, str], wanted: Settings) -> None:
    assert read(conf) == wanted


@pytest.mark.parametrize("name", ["enabled", "engine_reads_only", "strategy"])
def test_a_setting_that_is_not_understood_tells_what_may_stand(name: str) -> None:
    with pytest.raises(InvalidProperty, match=f"hive_bitmap.{name} is 'perhaps'; it takes .+"):
        read({f"hive_bitmap.{name}": "perhaps"})


def test_rows_of_parquet_are_blocks_of_orc() -> None:
    wanted = Settings(strategy="rows")
    assert (wanted.strategy_for("parquet"), wanted.strategy_for("orc")) == ("rows", "blocks")
    assert Settings(strategy="files").strategy_for("orc") == "files"
