"""The lengths of texts in ORC stripes: sound ones pass, whoever wrote them, and damaged ones are refused."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyorc
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyarrow import orc

from hive_bitmap.core.formats import FORMATS, orc_streams
from hive_bitmap.core.formats.key_values import KeyColumn
from hive_bitmap.core.formats.orc_streams import are_sound
from hive_bitmap.errors import Undecodable

COLUMNS = [KeyColumn("s", "string"), KeyColumn("b", "binary")]
CODECS = ["uncompressed", "zlib", "snappy", "lz4", "zstd"]
KINDS = {
    "alike": st.integers(0, 300).flatmap(lambda n: st.lists(st.just(n), max_size=700)),
    "rising": st.lists(st.integers(0, 400), max_size=700).map(sorted),
    "falling": st.lists(st.integers(0, 400), max_size=700).map(lambda some: sorted(some, reverse=True)),
    "small": st.lists(st.integers(0, 9), max_size=1200),
    "outliers": st.lists(st.sampled_from([*range(20)] * 30 + [90_000, 5_000]), min_size=520, max_size=1200),
    "any": st.lists(st.integers(0, 3_000), max_size=600),
}


def written(folder: Path, lengths: Sequence[int], codec: str, writer: str) -> str:
    """Write texts of these lengths, each other than its neighbours, and NULLs between them; return the path."""
    texts = [None if n % 13 == 5 else chr(97 + n % 26) * length for n, length in enumerate(lengths)]
    path = folder / "a.orc"
    if writer == "pyarrow":
        table = pa.table(
            {
                "s": pa.array(texts, pa.string()),
                "b": pa.array([None if text is None else text.encode() for text in texts], pa.binary()),
            }
        )
        orc.write_table(table, path, compression=codec)
    else:
        kind = getattr(pyorc.CompressionKind, "NONE" if codec == "uncompressed" else codec.upper())
        with path.open("wb") as file, pyorc.Writer(file, "struct<s:string,b:binary>", compression=kind) as rows:
            for text in texts:
                rows.write((text, None if text is None else text.encode()))
    return f"file:{path}"


def size_of(path: str) -> int:
    """Return the bytes of all texts, by their decoded values."""
    table = orc.read_table(path.removeprefix("file:"))
    return sum(len(text) for text in table["s"].to_pylist() if text is not None)


@pytest.mark.parametrize("writer", ["pyarrow", "pyorc"])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_lengths_add_up_to_the_bytes_of_the_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str, kind: str, data: st.DataObject
) -> None:
    lengths, codec = data.draw(KINDS[kind]), data.draw(st.sampled_from(CODECS))
    path = written(tmp_path, lengths, codec, writer)
    size, format = size_of(path), FORMATS["orc"]
    handle = format.open_file(path)
    with handle.source:
        for block in range(len(format.blocks(handle).rows)):
            keys = format.key_columns(handle, block, COLUMNS)
            assert keys.num_rows == len(lengths)
            if codec != "uncompressed" and size:
                with monkeypatch.context() as patched:
                    patched.setattr(orc_streams, "MOST_TEXT_BYTES", size)
                    format.key_columns(handle, block, COLUMNS)
                    patched.setattr(orc_streams, "MOST_TEXT_BYTES", size - 1)
                    with pytest.raises(Undecodable, match="the lengths of texts in stripe 0 are damaged"):
                        format.key_columns(handle, block, COLUMNS)


def first_version(runs: Sequence[tuple[int, int, int]], literals: Sequence[int]) -> bytes:
    """Encode runs (count, base, delta), then literals, in version 1."""
    data = bytearray()
    for count, base, delta in runs:
        data += bytes([count - 3, delta & 255]) + varint(base)
    for start in range(0, len(literals), 128):
        some = literals[start : start + 128]
        data += bytes([256 - len(some)]) + b"".join(map(varint, some))
    return bytes(data)


def varint(number: int) -> bytes:
    data = bytearray()
    while number >= 128:
        data.append(number & 127 | 128)
        number >>= 7
    return bytes([*data, number])


@given(
    st.lists(st.tuples(st.integers(3, 130), st.integers(0, 100_000), st.integers(-128, 127))),
    st.lists(st.integers(0, 1 << 40), max_size=300),
)
def test_lengths_of_version_1(runs: Sequence[tuple[int, int, int]], literals: Sequence[int]) -> None:
    values = [base + delta * n for count, base, delta in runs for n in range(count)] + list(literals)
    data, total = first_version(runs, literals), sum(values)
    is_sound = not values or min(base + delta * (count - 1) for count, base, delta in [*runs, (1, 0, 0)]) >= 0
    assert are_sound(data, total, first_version=True) == is_sound
    assert not total or not are_sound(data, total - 1, first_version=True)


@pytest.mark.parametrize(
    "data",
    [
        b"\x3f" + b"\xff" * 8,  # SHORT_REPEAT of 2^64 - 1
        b"\x7e\x03" + b"\x80" + b"\0" * 31,  # DIRECT of 64 bits, the first negative
        b"\xc0\x02\x01\x05",  # DELTA: 1, -2, -5
        b"\xc6\x03\x04\x01\xff",  # DELTA whose steps fall below 0
        b"\x8e\x03\x20\x21\x80\x01\0\0\0\0\0",  # PATCHED_BASE whose base is negative
        b"\x5e\x7f\0",  # cut off
        b"\x40",
        b"\xc0\x02\x80",
    ],
)
def test_lengths_that_no_writer_writes(data: bytes) -> None:
    assert not are_sound(data, 1 << 40, first_version=False)


@given(st.binary(max_size=60), st.booleans())
@example(b"\xc2\0\0\0", False)  # a DELTA of one number
@example(b"\xc0\x02" + b"\xff" * 11, False)  # a number of more than 64 bits
def test_any_bytes_are_judged(data: bytes, first: bool) -> None:
    assert are_sound(data, 1 << 31, first_version=first) in (True, False)


@pytest.mark.turn(len(CODECS))
@pytest.mark.parametrize("codec", CODECS)
def test_damaged_data_ends_no_process(tmp_path: Path, codec: str) -> None:
    """Files with changed bytes in their stripes, each opened in a child."""
    rng, format, ends = random.Random(5), FORMATS["orc"], set[int]()
    texts = [f"{rng.random()}"[: rng.randrange(3, 18)] for _ in range(2000)]
    table = pa.table({"s": texts, "b": [text.encode()[::-2] for text in texts]})
    orc.write_table(table, tmp_path / "a.orc", compression=codec)
    data = (tmp_path / "a.orc").read_bytes()
    for _ in range(100):
        damaged = bytearray(data)
        for _ in range(rng.choice([1, 1, 2, 4])):
            damaged[rng.randrange(4, len(data) - 600)] = rng.randrange(256)
        (tmp_path / "b.orc").write_bytes(damaged)
        child = os.fork()
        if not child:
            try:
                handle = format.open_file(f"file:{tmp_path}/b.orc")
                for block in range(len(format.blocks(handle).rows)):
                    format.key_columns(handle, block, COLUMNS)
                rows = [(0, np.array([3, 1_500])), (0, None)]
                for selection in rows:
                    list(format.read_rows(f"file:{tmp_path}/b.orc", COLUMNS, [selection]))
            except Undecodable:
                os._exit(1)
            else:
                os._exit(0)
            finally:  # of any other exception; the child must not come back
                os._exit(2)
        ends.add(os.waitpid(child, 0)[1])
    assert ends <= {0, 256}
