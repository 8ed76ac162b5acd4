"""Test reading a few rows of ORC stripes against pyarrow, for every type that is read directly."""

from __future__ import annotations

import datetime
import decimal
import math
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyorc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc as pyarrow_orc

from hive_bitmap.core.formats import orc
from hive_bitmap.core.formats.key_values import KeyColumn
from hive_bitmap.core.formats.orc_file import RowReader

STRIDE, ROWS = 500, 20_000
TYPES = {
    "boolean": lambda n: n % 3 == 0,
    "tinyint": lambda n: n % 256 - 128,
    "smallint": lambda n: n % 65536 - 32768,
    "int": lambda n: (n * 7919) % (1 << 32) - (1 << 31),
    "bigint": lambda n: (n * 0x9E3779B97F4A7C15) % (1 << 64) - (1 << 63),
    "float": lambda n: (math.nan, -0.0, math.inf, 0.5 * n)[n % 4],
    "double": lambda n: (math.nan, -0.0, -math.inf, n / 3)[n % 4],
    "string": lambda n: f"é\0{n}" if n % 2 else "often",
    "varchar(4)": lambda n: f"{n % 90}é",
    "char(6)": lambda n: f"{n % 90}é",
    "binary": lambda n: n.to_bytes(3, "big"),
    "date": lambda n: datetime.date(1600, 1, 1) + datetime.timedelta(days=n),
    "timestamp": lambda n: datetime.datetime(1969, 1, 1, tzinfo=UTC) + datetime.timedelta(hours=7 * n, microseconds=n),
    "timestamp with local time zone": lambda n: datetime.datetime(2020, 1, 1, tzinfo=UTC) + datetime.timedelta(hours=n),
    "decimal(9,2)": lambda n: decimal.Decimal(n - 777).scaleb(-2),
    "decimal(38,10)": lambda n: decimal.Decimal(10**30 * (n - 3)).scaleb(-10),
}
NAMES = [f"c.{number}" for number in range(len(TYPES))]
TEXTS = {name for name, type in zip(NAMES, TYPES, strict=True) if type[:6] in ("string", "varcha", "char(6", "binary")}
UTC = datetime.timezone.utc


@pytest.fixture(scope="module", params=["UTC", "America/New_York"])
def handle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> orc.OrcHandle:
    path = tmp_path_factory.mktemp("orc") / "f"
    schema = ",".join(f"`{name}`:{type}" for name, type in zip(NAMES, TYPES, strict=True))
    makers = list(TYPES.values())
    with (
        open(path, "wb") as file,
        pyorc.Writer(
            file,
            f"struct<{schema}>",
            stripe_size=200_000,
            batch_size=1000,
            row_index_stride=STRIDE,
            compression=pyorc.CompressionKind.ZSTD,
            timezone=ZoneInfo(request.param),
            dict_key_size_threshold=0.6,
        ) as writer,
    ):
        for n in range(ROWS):
            writer.write(tuple(None if (n + at) % 11 == 0 else make(n) for at, make in enumerate(makers)))
    return orc.open_file(f"file:{path}")


def test_the_file_has_several_stripes_of_several_row_groups(handle: orc.OrcHandle) -> None:
    rows = orc.blocks(handle).rows
    assert len(rows) >= 2
    assert rows[0] > 5 * STRIDE


@settings(max_examples=30)
@given(data=st.data())
def test_rows_are_those_of_the_stripe(handle: orc.OrcHandle, data: st.DataObject) -> None:
    block, names = (
        data.draw(st.integers(0, handle.file.nstripes - 1)),
        data.draw(st.sets(st.sampled_from(NAMES), min_size=1)),
    )
    count = int(orc.blocks(handle).rows[block])
    some = data.draw(
        st.sets(st.integers(0, count - 1) | st.sampled_from([0, STRIDE, STRIDE - 1, count - 1]), min_size=1)
    )
    rows = np.array(sorted(some), np.int64)
    read = RowReader(handle, sorted(names)).read(block, rows)
    whole = handle.file.read_stripe(block, columns=sorted(names)).take(pa.array(rows))
    if read is None:
        assert names & TEXTS  # pyorc cannot skip strings that are all empty or NULL at the start of a stripe
        return
    assert set(read.schema.names) == names
    for name in names:
        assert same(read.column(name), whole.column(name)), name


def test_it_pays_where_rows_are_as_few_as_the_entries_of_the_index(handle: orc.OrcHandle) -> None:
    few = RowReader(handle, NAMES)
    assert few.pays(4, 4 * STRIDE)
    assert not few.pays(4, 4 * STRIDE - 1)
    assert not few.pays(1, STRIDE)


def test_a_file_without_a_row_index_is_decoded(tmp_path: Path) -> None:
    with open(tmp_path / "f", "wb") as file, pyorc.Writer(file, "struct<a:int>", row_index_stride=0) as writer:
        writer.writerows([(n,) for n in range(10)])
    without = orc.open_file(f"file:{tmp_path / 'f'}")
    assert not RowReader(without, ["a"]).pays(1, 10)
    [batch] = orc.read_rows(without.path, [KeyColumn("a", "int")], [(0, np.array([7]))])
    assert batch.to_pydict() == {"a": [7]}


def test_what_pyorc_does_not_skip_is_decoded(tmp_path: Path) -> None:
    with open(tmp_path / "f", "wb") as file, pyorc.Writer(file, "struct<a:string>", row_index_stride=10) as writer:
        writer.writerows([(None,), *((str(n),) for n in range(1, 100))])
    handle = orc.open_file(f"file:{tmp_path / 'f'}")
    assert RowReader(handle, ["a"]).read(0, np.array([1])) is None
    [batch] = orc.read_rows(handle.path, [KeyColumn("a", "string")], [(0, np.array([1, 77]))])
    assert batch.to_pydict() == {"a": ["1", "77"]}


def test_strings_that_are_not_utf8_are_left_to_arrow(tmp_path: Path) -> None:
    bent = pa.array([b"\xff"] * 10_000, pa.binary()).view(pa.string())
    pyarrow_orc.write_table(pa.table({"a": bent}), str(tmp_path / "f"))
    assert RowReader(orc.open_file(f"file:{tmp_path / 'f'}"), ["a"]).read(0, np.array([5])) is None


def same(one: pa.Array, other: pa.Array) -> bool:
    """Return whether two arrays are equal, including the sign of zeros and the positions of NaN."""
    if one.type != other.type or not one.is_null().equals(other.is_null()):
        return False
    if pa.types.is_floating(one.type):
        bits = f"u{one.type.bit_width // 8}"
        a, b = (np.nan_to_num(v.fill_null(0).to_numpy(zero_copy_only=False), nan=1.5).view(bits) for v in (one, other))
        return bool((a == b).all())
    return bool(one.equals(other))
