"""The speed of a store is the median of its latest requests: small ones give the latency, large ones the bandwidth."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.stores import speed
from hive_bitmap.core.stores.speed import BANDWIDTH, LARGE, REMEMBERED, SMALL, Speed

PATH = "s3a://bucket/a/b"


@pytest.fixture(autouse=True)
def _nothing_measured() -> Iterator[None]:
    speed.forget()
    yield
    speed.forget()


REQUESTS = st.lists(
    st.tuples(
        st.floats(0.001, 10),
        st.sampled_from([0, 1, SMALL, SMALL + 1, LARGE - 1, LARGE, 8 * LARGE]),
    ),
    max_size=2 * REMEMBERED + 9,
)


@given(REQUESTS)
def test_it_is_the_median_of_the_latest_requests(requests: list[tuple[float, int]]) -> None:
    speed.forget()
    for seconds, size in requests:
        speed.note(PATH, seconds, size)
    small = [seconds for seconds, size in requests if size <= SMALL][-REMEMBERED:]
    large = [one for one in requests if one[1] >= LARGE][-REMEMBERED:]
    if not small:
        assert speed.of(PATH) is None
        return
    latency = median(small)
    bytes_ = [max(seconds - latency, 1e-9) / size for seconds, size in large]
    assert speed.of(PATH) == Speed(latency, median(bytes_) if bytes_ else 1 / BANDWIDTH)


def test_old_requests_are_forgotten() -> None:
    for _ in range(REMEMBERED + 5):
        speed.note(PATH, 9.0)
        speed.note(PATH, 90.0, LARGE)
    for _ in range(REMEMBERED):
        speed.note(PATH, 1.0)
        speed.note(PATH, 2.0, LARGE)
    assert speed.of(PATH) == Speed(1.0, 1.0 / LARGE)


def test_each_store_has_its_own() -> None:
    speed.note("s3a://bucket/a", 0.5)
    speed.note("s3a://other/a", 0.25)
    assert speed.of("s3a://bucket/some/thing") == Speed(0.5, 1 / BANDWIDTH)
    assert speed.of("s3a://other/a") == Speed(0.25, 1 / BANDWIDTH)
    assert speed.of("hdfs://bucket/a") is None
    speed.forget()
    assert speed.of("s3a://bucket/a") is None


def test_a_request_that_fails_is_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 10.5, 20.0, 20.25, 30.0, 38.0, 40.0])
    monkeypatch.setattr(speed.time, "monotonic", lambda: next(clock))
    assert speed.timed(PATH, lambda: "answer")() == "answer"
    with speed.noted(PATH):
        pass
    assert speed.of(PATH) == Speed(median([0.5, 0.25]), 1 / BANDWIDTH)
    assert speed.timed(PATH, lambda: "much", LARGE)() == "much"
    assert speed.of(PATH) == Speed(0.375, (8 - 0.375) / LARGE)
    with pytest.raises(OSError, match="no answer"), speed.noted(PATH):
        raise OSError("no answer")
    assert speed.of(PATH) == Speed(0.375, (8 - 0.375) / LARGE)
