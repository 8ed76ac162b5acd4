"""Values become keys as Spark's GROUP BY tells them apart: Python's own values and comparisons are the oracle."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.formats.key_values import KeyColumn, arrow_type, canonical, converted, decoding, is_simple, nulls
from hive_bitmap.errors import Undecodable, Unsupported

TYPES = [  # type of the table, base, parameters, Arrow type
    ("int", "int", (), pa.int32()),
    ("BIGINT", "bigint", (), pa.int64()),
    ("decimal(7,2)", "decimal", (7, 2), pa.decimal128(7, 2)),
    ("decimal(7, 2)", "decimal", (7, 2), pa.decimal128(7, 2)),
    ("decimal", "decimal", (), pa.decimal128(10, 0)),
    ("char(5)", "char", (5,), pa.string()),
    ("varchar(5)", "varchar", (5,), pa.string()),
    ("string", "string", (), pa.string()),
    ("string collate UTF8_LCASE", "string", (), pa.string()),
    ("timestamp", "timestamp", (), pa.timestamp("us", "UTC")),
    ("timestamp_ntz", "timestamp_ntz", (), pa.timestamp("us")),
    ("date", "date", (), pa.date32()),
]
NESTED = ["array<int>", "struct<a:int>", "map<int,string>", "interval day to second", "variant", "decimal_(1,2)"]
TEXTS = st.text(st.sampled_from("aé𝄞 "), max_size=6)


@pytest.mark.parametrize(("type", "base", "parameters", "arrow"), TYPES)
def test_simple_types(type: str, base: str, parameters: tuple[int, ...], arrow: pa.DataType) -> None:
    column = KeyColumn("c", type)
    assert (column.base, column.parameters, arrow_type(column)) == (base, parameters, arrow)
    assert is_simple(column)
    missing = nulls(column, 3)
    assert (missing.type, missing.null_count, len(missing)) == (arrow, 3, 3)


@pytest.mark.parametrize("type", NESTED)
def test_other_types_are_no_keys(type: str) -> None:
    assert not is_simple(KeyColumn("c", type))
    with pytest.raises(Unsupported, match=r"column 'c' of type .* cannot be read by blocks"):
        arrow_type(KeyColumn("c", type))


@given(st.lists(st.none() | st.floats(width=32)), st.sampled_from([pa.float32(), pa.float64()]))
def test_there_is_one_zero_and_one_nan(values: list[float | None], type: pa.DataType) -> None:
    found = canonical(pa.array(values, type, from_pandas=False)).to_pylist()
    assert len(found) == len(values)
    for value, key in zip(values, found, strict=True):
        if value is None:
            assert key is None
        elif math.isnan(value):
            assert bits(key) == bits(float("nan"))
        else:
            assert bits(key) == bits(value + 0.0) and key == value
    assert not any(key == 0 and math.copysign(1, key) < 0 for key in found if key is not None)


def bits(value: float) -> bytes:
    return struct.pack(">d", value)


def test_bits_of_another_nan_are_the_same_key() -> None:
    stored = pa.py_buffer(bytes.fromhex("010000000000f87f000000000000f8ff"))
    odd = pa.Array.from_buffers(pa.float64(), 2, [None, stored])
    assert {bits(key) for key in canonical(odd).to_pylist()} == {bits(float("nan"))}


def test_text_that_is_none_is_no_key() -> None:
    values = converted(pa.array([b"\xff", b"a"]), KeyColumn("c", "string"))
    assert values.type == pa.string()
    with pytest.raises(Undecodable, match=r"^some of its keys are not valid UTF-8 text$"):
        canonical(values)
    assert canonical(converted(pa.array([b"\xff"]), KeyColumn("c", "binary"))).to_pylist() == [b"\xff"]


def chunked(values: list[Any], type: pa.DataType | None = None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values[:2], type), pa.array(values[2:], type)])


@given(st.lists(st.none() | TEXTS, max_size=8), st.booleans(), st.booleans())
def test_char_is_padded_and_varchar_is_not(values: list[str | None], in_chunks: bool, dictionary: bool) -> None:
    stored = chunked(values, pa.string()) if in_chunks else pa.array(values, pa.string())
    stored = stored.dictionary_encode() if dictionary else stored
    for type, wanted in (
        ("varchar(4)", values),
        ("string", values),
        ("char(4)", [None if one is None else one + " " * (4 - len(one)) for one in values]),
        ("binary", [None if one is None else one.encode() for one in values]),
    ):
        found = converted(stored, KeyColumn("c", type))
        assert found.to_pylist() == wanted
        assert pa.types.is_dictionary(found.type) == (dictionary and type != "binary")


@pytest.mark.parametrize(
    ("values", "type", "wanted"),
    [
        (pa.array([1, None], pa.int8()), "bigint", [1, None]),
        (pa.array([127, -128], pa.int32()), "tinyint", [127, -128]),
        (pa.array([128], pa.int32()), "tinyint", None),
        (pa.array([2**31], pa.int64()), "int", None),
        (pa.array([1], pa.int32()), "double", [1.0]),
        (pa.array([Decimal("1.50")], pa.decimal128(9, 2)), "decimal(10,3)", [Decimal("1.500")]),
        (pa.array([Decimal("1.55")], pa.decimal128(9, 2)), "decimal(9,1)", None),
        (pa.array([1500], pa.timestamp("ns")), "timestamp_ntz", None),
        (pa.array([], pa.int64()), "int", []),
    ],
)
def test_a_value_that_does_not_fit_is_undecodable(values: pa.Array, type: str, wanted: list[Any] | None) -> None:
    column = KeyColumn("c", type)
    if wanted is None:
        with pytest.raises(Undecodable, match="column 'c' cannot be decoded: "):
            converted(values, column)
        return
    found = converted(values, column)
    assert found.to_pylist() == wanted and found.type == arrow_type(column)


def test_errors_of_a_store_are_none_of_the_file() -> None:
    with pytest.raises(Undecodable, match="what cannot be decoded: broken"), decoding("what"):
        raise OSError("broken")
    with pytest.raises(Undecodable, match="what cannot be decoded: bad"), decoding("what"):
        raise pa.ArrowInvalid("bad")
    for error in (FileNotFoundError(2, "gone"), OSError(5, "I/O"), KeyError("x")):
        with pytest.raises(type(error)), decoding("what"):
            raise error
