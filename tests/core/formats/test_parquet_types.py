"""Which stored types are read as which types of a table: each pair is allowed by the table, or refused.

That Spark reads the allowed ones alike is compared in test_formats_spark.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hive_bitmap.core.formats.calendar_checks import FIRST_DAY, FIRST_MICROSECOND
from hive_bitmap.core.formats.key_values import KeyColumn
from hive_bitmap.core.formats.parquet_types import Conversion, conversion_for, describe, stored_kind
from hive_bitmap.errors import Undecodable

ANY = Conversion()
# An Arrow type, the kind as which it is stored, and the types of a table as which it is read whatever the values.
WRITTEN = {
    "bool": (pa.bool_(), "boolean", {"boolean"}),
    "int8": (pa.int8(), "int8", {"tinyint", "smallint", "int", "bigint", "double"}),
    "int16": (pa.int16(), "int16", {"smallint", "int", "bigint", "double"}),
    "int32": (pa.int32(), "int32", {"int", "bigint", "double"}),
    "int64": (pa.int64(), "int64", {"bigint"}),
    "uint8": (pa.uint8(), "uint8", {"smallint"}),
    "uint16": (pa.uint16(), "uint16", {"int"}),
    "uint32": (pa.uint32(), "uint32", {"bigint"}),
    "uint64": (pa.uint64(), "uint64", set()),
    "float": (pa.float32(), "float", {"float", "double"}),
    "double": (pa.float64(), "double", {"double"}),
    "half": (pa.float16(), "Float16", set()),
    "string": (pa.string(), "string", {"string", "varchar(9)", "char(9)", "binary"}),
    "binary": (pa.binary(), "bytes", {"string", "varchar(9)", "char(9)", "binary"}),
    "fixed": (pa.binary(3), "FIXED_LEN_BYTE_ARRAY", {"binary"}),
    "time": (pa.time64("us"), "Time", set()),
    "local ms": (pa.timestamp("ms"), "timestamp[ms]", {"timestamp_ntz"}),
    "local us": (pa.timestamp("us"), "timestamp[us]", {"timestamp_ntz"}),
    "local ns": (pa.timestamp("ns"), "timestamp[nanoseconds]", set()),
    "date": (pa.date32(), "date", set()),
    "us": (pa.timestamp("us", "UTC"), "timestamp[us, utc]", set()),
    "ms": (pa.timestamp("ms", "UTC"), "timestamp[ms, utc]", set()),
}
NARROWED = {("int16", "tinyint"), ("int32", "tinyint"), ("int32", "smallint")}
OF_A_CALENDAR = {("date", "date"), *((kind, "timestamp") for kind in ("us", "ms", "local us", "local ms"))}
TYPES = "boolean tinyint smallint int bigint float double string varchar(9) char(9) binary date timestamp timestamp_ntz"


def leaf_of(type: pa.DataType, **options: object) -> pq.ColumnSchema:
    """How pyarrow stores a column of this type."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"c": pa.array([], type)}), sink, version="2.6", store_schema=False, **options)
    return pq.ParquetFile(io.BytesIO(sink.getvalue())).schema.column(0)


def as_type(leaf: pq.ColumnSchema, type: str, **metadata: str) -> Conversion | None:
    """How a stored column is read as a type; None if it is refused. `metadata` are names of Spark's."""
    told = {f"org.apache.spark.{name}".encode(): value.encode() for name, value in metadata.items()}
    try:
        return conversion_for(leaf, KeyColumn("c", type), told or None)
    except Undecodable as e:
        assert str(e).startswith("column 'c' is stored as ") and str(e).endswith(f", the table says {type}")
        return None


def pairs() -> Iterator[tuple[str, str]]:
    return ((name, type) for name in WRITTEN for type in [*TYPES.split(), "decimal(9,0)"])


def test_each_pair_is_allowed_or_refused() -> None:
    leaves = {name: leaf_of(type) for name, (type, _, _) in WRITTEN.items()}
    kinds = {name: kind for name, (_, kind, _) in WRITTEN.items()}
    assert {name: stored_kind(leaf) for name, leaf in leaves.items()} == kinds
    found = {pair: as_type(leaves[pair[0]], pair[1]) for pair in pairs()}
    allowed = {(name, type) for name, (_, _, types) in WRITTEN.items() for type in types}
    assert {pair for pair, one in found.items() if one == ANY} == allowed
    assert {pair for pair, one in found.items() if one is not None and one.narrowed} == NARROWED
    assert {pair for pair, one in found.items() if one is not None and one.floor is not None} == OF_A_CALENDAR
    assert found["date", "date"] == Conversion(floor=FIRST_DAY)
    assert found["us", "timestamp"] == Conversion(floor=FIRST_MICROSECOND)
    assert all(one is None or one.always_alike == (one == ANY) for one in found.values())


VERSIONS = [
    ({}, False, False),
    ({"version": "2.4.8"}, False, False),
    ({"version": "3.0.3"}, True, False),
    ({"version": "3.1.0"}, True, True),
    ({"version": "4.0.0-preview2"}, True, True),
    ({"version": "10.0.0"}, True, True),
    ({"version": "3.5.0", "legacyDateTime": ""}, False, True),
    ({"version": "3.5.0", "legacyINT96": ""}, True, False),
    ({"version": "master"}, False, False),
    ({"version": "4"}, False, False),
    ({"legacyINT96": ""}, False, False),
]


@pytest.mark.parametrize(("metadata", "dates", "int96"), VERSIONS, ids=str)
def test_old_dates_are_read_if_sparks_metadata_prove_the_calendar(
    metadata: dict[str, str], dates: bool, int96: bool
) -> None:
    moment = pa.timestamp("us", "UTC")
    old = leaf_of(pa.timestamp("ns"), use_deprecated_int96_timestamps=True)
    assert stored_kind(old) == "int96"
    for leaf, type, floor, proved in (
        (leaf_of(pa.date32()), "date", FIRST_DAY, dates),
        (leaf_of(moment), "timestamp", FIRST_MICROSECOND, dates),
        (old, "timestamp", FIRST_MICROSECOND, int96),
    ):
        assert as_type(leaf, type, **metadata) == Conversion(floor=None if proved else floor)
    assert as_type(old, "timestamp_ntz", **metadata) is None


@pytest.mark.parametrize("stored", [(9, 2), (18, 0), (38, 10)])
def test_a_decimal_may_gain_digits_and_lose_none(stored: tuple[int, int]) -> None:
    leaf = leaf_of(pa.decimal128(*stored))
    assert stored_kind(leaf) == "decimal"
    for precision in range(1, 39):
        for scale in range(precision + 1):
            wider = scale >= stored[1] and precision - scale >= stored[0] - stored[1]
            assert as_type(leaf, f"decimal({precision},{scale})") == (ANY if wider else None)
    assert as_type(leaf, "decimal") == (ANY if stored == (10, 0) else None)
    assert as_type(leaf, "bigint") is None and as_type(leaf, "double") is None


def test_a_column_is_described_by_what_is_stored() -> None:
    assert describe(leaf_of(pa.int64())) == "INT64"
    assert describe(leaf_of(pa.string())) == "BYTE_ARRAY (STRING)"
    with pytest.raises(Undecodable, match=r"column 'c' is stored as decimal\(9,2\), the table says int"):
        conversion_for(leaf_of(pa.decimal128(9, 2)), KeyColumn("c", "int"), None)
