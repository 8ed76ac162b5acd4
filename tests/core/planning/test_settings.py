"""The settings of a session that concern queries: what they take, and what they refuse."""

from __future__ import annotations

import pytest

from hive_bitmap.core.planning.settings import Settings, read
from hive_bitmap.core.planning.strategy import STRATEGIES
from hive_bitmap.errors import InvalidProperty


def test_without_a_setting_all_have_their_defaults() -> None:
    wanted = Settings(
        enabled=True,
        auto_refresh=True,
        engine_reads_only=False,
        strategy=None,
        strict=False,
        learn_prices=True,
        answer_bytes=16 << 20,
        driver_read_bytes=8 << 20,
        planning_seconds=1.0,
    )
    assert read({"spark.app.name": "x"}) == wanted


@pytest.mark.parametrize("said", [*STRATEGIES, "FULL_SCAN", " Index Only ", "full_scan"])
def test_a_strategy_may_be_written_as_people_write_it(said: str) -> None:
    assert read({"hive_bitmap.strategy": said}).strategy == said.strip().lower().replace("_", " ")


@pytest.mark.parametrize("said", ["", "  "])
def test_an_empty_strategy_is_none(said: str) -> None:
    assert read({"hive_bitmap.strategy": said}).strategy is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("strategy", "blcks"),
        ("enabled", "flase"),
        ("strict", "1"),
        ("engine_reads_only", ""),
        ("answer_bytes", "-1"),
        ("answer_bytes", "16 furlongs"),
    ],
)
def test_a_value_that_is_none_is_refused_with_what_is_taken(name: str, said: str) -> None:
    with pytest.raises(InvalidProperty, match=rf"hive_bitmap\.{name} is '{said}'; it takes "):
        read({f"hive_bitmap.{name}": said})


@pytest.mark.parametrize(
    ("said", "message", "size"),
    [("1024", "", 1024), ("16k", "", 16 << 10), ("2 MB", "", 2 << 20), ("1g", "", 64 << 20), ("1g", "8", 4 << 20)],
)
def test_an_answer_takes_half_a_message_of_spark_at_most(said: str, message: str, size: int) -> None:
    assert read({"hive_bitmap.answer_bytes": said, "spark.rpc.message.maxSize": message}).answer_bytes == size
