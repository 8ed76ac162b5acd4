"""Test the starts of lines against Python's reader, and reject files that are no text or no container file."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.formats import LAYOUTS, blocks, text
from hive_bitmap.errors import Undecodable

PIECES = st.lists(st.sampled_from([b"", b"a", b"\xff\x00", b"\r", b"\n", b"\r\n", b"\n\r", b"x" * 9]), max_size=40)


def lines_of(data: bytes) -> list[bytes]:
    """Split into lines with Python's universal newlines, keeping the line ends."""
    reader = io.TextIOWrapper(io.BytesIO(data), encoding="latin-1", newline="")
    return [line.encode("latin-1") for line in reader]


def starts_of(data: bytes) -> list[int]:
    return np.cumsum([0, *map(len, lines_of(data))])[:-1].tolist()


@settings(max_examples=150)
@given(pieces=PIECES, chunk=st.integers(1, 12), block=st.integers(1, 30), seed=st.integers(0, 99))
def test_lines_blocks_and_offsets_of_rows(
    pieces: list[bytes], chunk: int, block: int, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = b"".join(pieces)
    path = tmp_path_factory.mktemp("t") / "a b%20é"
    path.write_bytes(data)
    starts = starts_of(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "CHUNK_BYTES", chunk)
        patch.setattr(blocks, "BLOCK_BYTES", block)
        found = blocks.blocks(text, f"file:{path}")
        assert int(found.rows.sum()) == len(starts)
        assert found.offset.tolist() == [s for s in starts if s in set(found.offset.tolist())]
        assert found.length.tolist() == np.diff([*found.offset.tolist(), len(data)]).tolist()
        if data:
            assert np.split(np.array(starts), np.searchsorted(starts, found.offset[1:]))[0][0] == 0
        for number, first in enumerate(found.first_rows().tolist()):
            count = int(found.rows[number])
            rows = np.flatnonzero(np.random.default_rng(seed).random(count) < 0.5)
            place = int(found.offset[number]), int(found.length[number])
            got = blocks.row_offsets(text, f"file:{path}", *place, rows)
            assert got.tolist() == [starts[first + row] for row in rows]
            everything = blocks.row_offsets(text, f"file:{path}", *place, None)
            assert everything.tolist() == starts[first : first + count]
        for suffix, compress in (("gz", gzip.compress), ("deflate", zlib.compress)):
            (path.parent / f"z.{suffix}").write_bytes(compress(data[:7]) + compress(data[7:]))
            zipped = blocks.blocks(text, f"file:{path.parent}/z.{suffix}")
            assert (zipped.offset.tolist(), zipped.rows.tolist()) == ([0], [len(starts)])


def test_rows_that_a_block_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"a\nb\n")
    with pytest.raises(Undecodable, match="holds 2 rows at 0, not 3"):
        blocks.row_offsets(text, f"file:{tmp_path}/t", 0, 4, np.array([2]))


@pytest.mark.parametrize("name", ["t.bz2", "t.snappy", "t.zst"])
def test_text_of_other_codecs(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"a\n")
    with pytest.raises(Undecodable, match="is not supported: use gzip or deflate"):
        blocks.blocks(text, f"file:{tmp_path}/{name}")


@pytest.mark.parametrize(("name", "codec"), [("t.gz", "gzip"), ("t.deflate", "deflate")])
def test_compressed_text_that_is_none(tmp_path: Path, name: str, codec: str) -> None:
    (tmp_path / name).write_bytes(b"no such thing")
    with pytest.raises(Undecodable, match=codec):
        blocks.blocks(text, f"file:{tmp_path}/{name}")


@pytest.mark.parametrize("format", ["avro", "rcfile", "sequencefile"])
@pytest.mark.parametrize(
    "data", [b"", b"PAR1", b"Obj\x01", b"Obj\x01\x02\0\x05", b"RCF\x01\x01\x05abc", b"SEQ\x06\x02ab\x01c\x00"]
)
def test_what_is_no_such_file(tmp_path: Path, format: str, data: bytes) -> None:
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(Undecodable):
        blocks.blocks(LAYOUTS[format], f"file:{tmp_path}/f")
