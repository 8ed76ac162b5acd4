"""Checksums of a generation: of all that is read of it, compared before Arrow parses it; zlib is the oracle."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hive_bitmap.core.index import checksums
from hive_bitmap.core.index.checksums import FOLDER, NAME
from hive_bitmap.core.index.lookup import open_checked


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Parquet file of three row groups and two columns, one of them with a dictionary."""
    path = tmp_path_factory.mktemp("s") / "part-1.parquet"
    table = pa.table({"k": pa.array(np.arange(30) % 4), "v": pa.array(np.arange(30) / 7)})
    pq.write_table(table, path, row_group_size=10, use_dictionary=["k"])
    return path


def footer_size(content: bytes) -> int:
    """Return the size of the footer, with its length and the magic at the end of the file."""
    (length,) = struct.unpack("<I", content[-8:-4])
    return int(length) + 8


def ranges(path: Path) -> list[tuple[int, int]]:
    """Return start and end of each column chunk: they follow each other from the magic to the footer."""
    metadata = pq.read_metadata(path)
    sizes = [metadata.row_group(g).column(c).total_compressed_size for g in range(3) for c in range(2)]
    ends = (4 + np.cumsum(sizes)).tolist()
    return list(zip([4, *ends[:-1]], ends, strict=True))


def test_of_a_shard_there_is_one_of_the_footer_and_one_of_each_column_chunk(shard: Path) -> None:
    content = shard.read_bytes()
    expected = [zlib.crc32(content[-footer_size(content) :])]
    expected += [zlib.crc32(content[start:end]) for start, end in ranges(shard)]
    assert checksums.of_shard(pa.BufferReader(content)) == expected
    assert ranges(shard)[-1][1] <= len(content) - footer_size(content)


def test_a_shard_that_is_what_was_written_is_read_as_it_is(shard: Path) -> None:
    content = shard.read_bytes()
    sums = checksums.of_shard(pa.BufferReader(content))
    for given_sums in (sums, None):
        metadata = checksums.footer_of(pa.BufferReader(content), given_sums)
        assert open_checked(pa.BufferReader(content), metadata, given_sums).read() == pq.read_table(shard)


def test_each_byte_of_a_column_chunk_and_of_the_footer_is_checked(shard: Path) -> None:
    content = shard.read_bytes()
    sums = checksums.of_shard(pa.BufferReader(content))
    metadata = pq.read_metadata(shard)
    for at in range(4, len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 1 << at % 8
        source = pa.BufferReader(bytes(damaged))
        if at >= len(content) - footer_size(content):
            with pytest.raises(OSError, match="its checksum is wrong"):
                checksums.footer_of(source, sums)
            continue
        hit = [start for start, end in ranges(shard) if start <= at < end]
        if hit:
            size = next(end - start for start, end in ranges(shard) if start == hit[0])
            with pytest.raises(OSError, match=f"the checksum of its {size} bytes from {hit[0]} on is wrong"):
                open_checked(source, metadata, sums).read(use_threads=False)


@given(st.integers(0, 10**6), st.integers(0, 10**6))
@settings(max_examples=150)
def test_a_read_covers_column_chunks_whole_or_not_at_all(shard: Path, first: int, second: int) -> None:
    content = shard.read_bytes()
    places = sorted({0, len(content), *(at for pair in ranges(shard) for at in pair), first % len(content)})
    start, end = sorted((places[first % len(places)], places[second % len(places)]))
    assume(start < end)
    sums = checksums.of_shard(pa.BufferReader(content))
    source = checksums.chunks_of(pa.BufferReader(content), pq.read_metadata(shard), sums)
    touched = [(low, high) for low, high in ranges(shard) if low < end and high > start]
    if all(start <= low and high <= end for low, high in touched):
        assert source.read_at(end - start, start) == content[start:end]
        assert (source.size(), source.readable(), source.writable()) == (len(content), True, False)
    else:
        with pytest.raises(OSError, match="the checksum of its"):
            source.read_at(end - start, start)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it has 0 bytes"),
        (b"PAR1", "it has 4 bytes"),
        (b"\0\0\0\0PAR1", "its checksum is wrong"),
        (b"\xff\xff\xff\xffPAR1", "its checksum is wrong"),  # a footer that is longer than the file
    ],
)
def test_what_is_too_short_for_a_footer_is_refused_before_arrow_sees_it(content: bytes, message: str) -> None:
    with pytest.raises(OSError, match=message):
        checksums.footer_of(pa.BufferReader(content), [1])


def test_what_has_no_checksum_is_not_checked() -> None:
    checksums.require(b"x", None)
    checksums.require(b"x", [zlib.crc32(b"x"), 7])
    checksums.require(pa.py_buffer(b"x"), [zlib.crc32(b"x")])
    with pytest.raises(OSError, match="its checksum is wrong"):
        checksums.require(b"x", [zlib.crc32(b"y")])


class TestOfAGeneration:
    @given(
        st.dictionaries(st.text(max_size=5), st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=3), max_size=3)
    )
    @settings(max_examples=30)
    def test_they_are_read_as_they_were_written(self, tmp_path: Path, sums: dict[str, list[int]]) -> None:
        folder = f"file:{tmp_path}"
        (tmp_path / FOLDER).mkdir(exist_ok=True)
        checksums.write(folder, sums)
        checksums.of_generation.forget(folder)
        assert checksums.read(folder) == sums

    def test_one_without_them_has_none_until_they_are_written(self, tmp_path: Path) -> None:
        folder = f"file:{tmp_path}"
        assert checksums.read(folder) == {}
        (tmp_path / FOLDER).mkdir()
        checksums.write(folder, {"a": [1]})
        assert checksums.read(folder) == {"a": [1]}
        (tmp_path / FOLDER / NAME).unlink()
        assert checksums.read(folder) == {"a": [1]}  # a generation never changes

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("{", "its checksums cannot be read: Expecting"),
            ("[" * 100_000, "its checksums cannot be read: "),
            ("\xff", "its checksums cannot be read: "),
            ("[]", "its checksums cannot be read: they are not lists of numbers by file name"),
            ('{"a": []}', "its checksums cannot be read: they are not lists of numbers by file name"),
            ('{"a": ["1"]}', "its checksums cannot be read: they are not lists of numbers by file name"),
            ('{"a": 1}', "its checksums cannot be read: they are not lists of numbers by file name"),
        ],
    )
    def test_what_is_none_is_not_taken_for_no_checksums(self, tmp_path: Path, content: str, message: str) -> None:
        (tmp_path / FOLDER).mkdir()
        (tmp_path / FOLDER / NAME).write_bytes(content.encode("latin-1"))
        with pytest.raises(OSError, match=message) as error:
            checksums.read(f"file:{tmp_path}")
        assert not isinstance(error.value, FileNotFoundError)
