"""A file in ranges is the same bytes as `io.BytesIO`, however they are asked for, and few requests are made."""

from __future__ import annotations

import io

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hive_bitmap.core.stores import ranged
from hive_bitmap.core.stores.ranged import Ranged

SIZE = 60
CONTENT = bytes(range(SIZE))
Request = tuple[int, int]  # start, size


def opened(content: bytes, tail: int, ahead: int) -> tuple[Ranged, list[Request]]:
    """A file whose last `tail` bytes have been read, and the requests that are made for the others."""
    made: list[Request] = []

    def read(start: int, size: int) -> bytes:
        assert size > 0 and start >= 0 and start + size <= len(content)
        made.append((start, size))
        return content[start : start + size]

    return Ranged(len(content), read, content[len(content) - tail :], ahead), made


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.none() | st.integers(-1, SIZE + 5)),
        st.tuples(st.just("seek"), st.integers(0, SIZE + 5)),
        st.tuples(st.just("seek from the end"), st.integers(-SIZE, 0)),
        st.tuples(st.just("seek on"), st.integers(0, 9)),
        st.tuples(st.just("readinto"), st.integers(0, SIZE + 5)),
        st.tuples(st.just("read all"), st.just(0)),
    ),
    max_size=12,
)


@given(st.binary(max_size=SIZE), st.integers(0, SIZE), st.integers(1, 20), STEPS)
@settings(max_examples=300)
def test_it_is_read_as_bytes_in_memory_are(content: bytes, tail: int, ahead: int, steps: list[tuple[str, int]]) -> None:
    file, made = opened(content, min(tail, len(content)), ahead)
    oracle = io.BytesIO(content)
    for step, number in steps:
        match step:
            case "read":
                assert file.read(number) == oracle.read(number)
            case "seek":
                assert file.seek(number) == oracle.seek(number)
            case "seek from the end":
                wanted = max(number, -len(content))
                assert file.seek(wanted, io.SEEK_END) == oracle.seek(wanted, io.SEEK_END)
            case "seek on":
                assert file.seek(number, io.SEEK_CUR) == oracle.seek(number, io.SEEK_CUR)
            case "readinto":
                one, other = bytearray(number), bytearray(number)
                assert file.readinto(memoryview(one)) == oracle.readinto(other)
                assert one == other
            case "read all":
                assert file.readall() == oracle.read()
        assert file.tell() == oracle.tell()
    assert file.size() == len(content) and file.readable() and file.seekable()
    assert len({start for start, _ in made}) == len(made)  # nothing is kept twice


@given(st.integers(0, SIZE), st.integers(1, 20), st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, SIZE))))
@example(0, 10, [(20, 10), (25, 2), (15, 10)])
@settings(max_examples=200)
def test_what_has_been_read_is_not_requested_again(tail: int, ahead: int, reads: list[Request]) -> None:
    file, made = opened(CONTENT, tail, ahead)
    for start, size in [*reads, *reads]:
        before = len(made)
        assert file.read_at(size, start) == CONTENT[start : start + size]
        missing = {*range(start, min(start + size, SIZE - tail))} - covered(made[:before])
        assert bool(made[before:]) >= bool(missing)
        if start >= SIZE - tail:
            assert made[before:] == []
    before = len(made)
    for start, size in reads[-1:]:
        file.read_at(size, start)
    assert made[before:] == []


def covered(requests: list[Request]) -> set[int]:
    return {byte for start, size in requests for byte in range(start, start + size)}


def test_a_request_reads_ahead_but_not_the_tail() -> None:
    file, made = opened(CONTENT, 10, 20)
    assert file.read_at(2, 5) == CONTENT[5:7]
    assert file.read_at(30, 25) == CONTENT[25:55]
    assert made == [(5, 20), (25, 25)]  # up to the tail, which begins at 50
    assert file.read_at(3, 6) == CONTENT[6:9] and file.read_at(10, 50) == CONTENT[50:]
    assert len(made) == 2


def test_the_oldest_ranges_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranged, "MOST_BUFFERED", 20)
    file, made = opened(CONTENT, 0, 10)
    for start in (0, 10, 20, 10, 20, 0):
        assert file.read_at(5, start) == CONTENT[start : start + 5]
    assert made == [(0, 10), (10, 10), (20, 10), (0, 10)]
    file, made = opened(CONTENT, 0, 10)
    assert file.read_at(40, 0) == file.read_at(40, 0) == CONTENT[:40]  # one range is kept, however long it is
    assert made == [(0, 40)]
    file.close()
    assert file.closed
