"""What finished reads teach: factors within bounds, and a version that changes with them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.planning.learnt_prices import (
    ENOUGH,
    FROZEN,
    LEAST,
    LEAST_SECONDS,
    MOST,
    MOST_AGE,
    MOST_KINDS,
    REMEMBERED,
    STEP,
    Factors,
    LearntPrices,
    Reader,
)

PATH = "s3a://bucket/t"
READS = st.lists(st.tuples(st.floats(1e-3, 100), st.floats(0.01, 1000), st.sampled_from(Reader)), max_size=60)


def learn(prices: LearntPrices, expected: float, seconds: float, times: int = 1, reader: Reader = Reader.SPARK) -> None:
    """Note a read as the planner prices it: its estimate has the factor that is learnt so far."""
    for _ in range(times):
        factors = prices.factors(PATH, "orc")
        prices.note(factors, reader, expected * factors.of(reader).factor, seconds)


def spark_factor(prices: LearntPrices) -> float:
    return prices.factors(PATH, "orc").spark.factor


@given(READS)
def test_factors_stay_within_their_bounds_and_change_with_the_version(reads: list[tuple[float, float, Reader]]) -> None:
    prices = LearntPrices()
    for expected, seconds, reader in reads:
        version, before = prices.version, prices.factors(PATH, "orc").pair
        learn(prices, expected, seconds, reader=reader)
        after = prices.factors(PATH, "orc").pair
        assert all(LEAST <= factor <= MOST for factor in after)
        assert (prices.version != version) == (after != before)
        assert expected >= LEAST_SECONDS or after == before


@given(st.floats(0.3, 3.5), st.floats(0.2, 10))
def test_a_machine_of_another_speed_is_learnt_and_forgotten_again(speed: float, expected: float) -> None:
    prices = LearntPrices()
    seconds = speed * expected
    learn(prices, expected, seconds, ENOUGH - 1)
    assert spark_factor(prices) == 1
    learn(prices, expected, seconds, REMEMBERED)
    assert spark_factor(prices) == pytest.approx(min(max(seconds / expected, LEAST), MOST), rel=STEP - 1)
    assert prices.factors(PATH, "parquet").spark.factor == prices.factors("file:/t", "orc").spark.factor == 1
    learn(prices, 1.0, 1.0, 2 * REMEMBERED)
    assert spark_factor(prices) == pytest.approx(1, rel=STEP - 1)


def test_one_odd_read_changes_nothing() -> None:
    prices = LearntPrices()
    learn(prices, 1.0, 2.0, 7)
    version = prices.version
    learn(prices, 1.0, 90.0)
    assert (prices.version, spark_factor(prices)) == (version, 2.0)
    learnt = prices.factors(PATH, "orc").spark
    assert (learnt.count, learnt.expected, learnt.measured) == (8, 1.0, 90.0)


@pytest.mark.parametrize("reader", Reader)
def test_a_factor_that_is_not_learnt_is_that_of_the_other_reader(reader: Reader) -> None:
    """A machine that is slow as a whole changes no choice, until both kinds of read were measured."""
    [other] = set(Reader) - {reader}
    prices = LearntPrices()
    learn(prices, 1.0, 3.0, ENOUGH, reader)
    learn(prices, 1.0, 1.0, ENOUGH - 1, other)
    assert prices.factors(PATH, "orc").pair == (3.0, 3.0)
    version = prices.version
    learn(prices, 1.0, 1.0, 1, other)
    assert (prices.factors(PATH, "orc").of(reader).factor, prices.factors(PATH, "orc").of(other).factor) == (3.0, 1.0)
    assert prices.version != version


def test_old_measurements_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    prices, now = LearntPrices(), 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    learn(prices, 1.0, 3.0, ENOUGH)
    now += MOST_AGE
    learn(prices, 1.0, 1.0, ENOUGH, Reader.OWN)
    assert prices.factors(PATH, "orc").pair == (3.0, 1.0)
    version, now = prices.version, now + 1
    assert (prices.factors(PATH, "orc").pair, prices.version != version) == ((1.0, 1.0), True)
    version, now = prices.version, now + MOST_AGE
    assert (prices.factors(PATH, "orc"), prices.version != version) == (Factors("s3a", "orc"), True)


def test_short_and_frozen_reads_teach_nothing() -> None:
    """Short are those that should be, however long they take."""
    prices = LearntPrices()
    learn(prices, LEAST_SECONDS / 2, 2.0, 9)
    prices.note(FROZEN, Reader.SPARK, 0.1, 1.0)
    prices.note(prices.factors(PATH, "orc"), Reader.SPARK, 0.0, 1.0)
    assert (prices.version, prices.factors(PATH, "orc")) == (0, Factors("s3a", "orc"))


def test_what_is_forgotten_is_another_version() -> None:
    prices = LearntPrices()
    learn(prices, 1.0, 3.0, ENOUGH, Reader.OWN)
    assert prices.factors(PATH, "orc").own.factor == 3.0
    version = prices.version
    prices.forget()
    assert prices.factors(PATH, "orc") == Factors("s3a", "orc")
    assert prices.version != version


def test_stores_are_bounded() -> None:
    prices = LearntPrices()
    for number in range(2 * MOST_KINDS):
        for _ in range(ENOUGH):
            prices.note(Factors(f"s{number}", "orc"), Reader.SPARK, 1.0, 2.0)
    assert prices.factors("s0://b/t", "orc").spark.factor == 2.0
    assert prices.factors(f"s{MOST_KINDS}://b/t", "orc").spark.factor == 1.0
