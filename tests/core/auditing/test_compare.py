"""Tests of the comparison of a block with its stored rows: every fault is counted. Sets of rows are the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.auditing.compare import MOST_MESSAGES, compare_block
from hive_bitmap.core.bitmaps import ENCODINGS
from hive_bitmap.core.bitmaps.keybytes import key_bytes
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.shard import CARDINALITY
from hive_bitmap.core.indexing.group_indexing import index_rows

Stored = list[tuple[int, frozenset[int]]]  # key, rows of its bitmap


def definition(encoding: str) -> Definition:
    return Definition(name="i", database="db", table="t", columns=(Column("k", "int"),), encoding=encoding)


def stored_table(encoding: str, stored: Stored, rows: int) -> pa.Table:
    """Return rows of an index table with these bitmaps, none of which may be empty."""
    fields = ENCODINGS[encoding].FIELDS
    columns = [pa.chunked_array([], field.type) for field in fields]
    for _, held in stored:
        member = np.isin(np.arange(rows), list(held))
        encoded = ENCODINGS[encoding].encode(key_bytes(np.where(member, 0, 1))[1])
        one = [e.slice(0, 1).cast(field.type) for e, field in zip(encoded, fields, strict=True)]
        columns = [pa.chunked_array([*c.chunks, e]) for c, e in zip(columns, one, strict=True)]
    keys = pa.array([key if key >= 0 else None for key, _ in stored], pa.int32())
    return pa.table([keys, *columns], names=["k", *(field.name for field in fields)])


def faults(keys: Sequence[int], stored: Stored) -> int:
    """Count missing, superfluous and repeated rows, and rows of the block that are not in their key's bitmap alone."""
    named = [key for key, _ in stored]
    where = [{key for key, held in stored if row in held} for row in range(len(keys))]
    rows = sum(found != {key} and not (key not in named and not found) for key, found in zip(keys, where, strict=True))
    repeated = sum(named.count(key) > 1 for key in set(named))
    return len(set(keys) ^ set(named)) + repeated + rows


@st.composite
def blocks(draw: st.DrawFn) -> tuple[list[int], Stored]:
    """Draw the keys of a block (-1 is NULL), and stored rows that are mostly right."""
    keys = draw(st.lists(st.integers(-1, 6), min_size=1, max_size=80))
    right = [(key, frozenset(row for row, k in enumerate(keys) if k == key)) for key in sorted(set(keys))]
    stored = []
    for key, held in right:
        kind = draw(st.sampled_from(["right"] * 6 + ["missing", "flipped", "renamed", "twice"]))
        flip = draw(st.integers(0, len(keys) - 1))
        if kind == "flipped" and held ^ {flip}:
            held = held ^ {flip}
        if kind != "missing":
            stored.append((draw(st.integers(-1, 9)) if kind == "renamed" else key, held))
        if kind == "twice":
            stored.append((key, held))
    return keys, draw(st.permutations(stored))


@pytest.mark.parametrize("encoding", list(ENCODINGS))
@given(block=blocks())
@settings(max_examples=60)
def test_every_fault_is_counted(encoding: str, block: tuple[list[int], Stored]) -> None:
    keys, stored = block
    base = pa.table({"k": pa.array([key if key >= 0 else None for key in keys], pa.int32())})
    found = compare_block(definition(encoding), base, stored_table(encoding, stored, len(keys)))
    assert found.count == faults(keys, stored)
    assert len(found.messages) == min(found.count, MOST_MESSAGES)


@given(
    keys=st.lists(st.integers(0, 6), min_size=1, max_size=40),
    change=st.lists(st.one_of(st.just(0), st.none(), st.integers(-3, 3)), min_size=7, max_size=7),
)
@settings(max_examples=100)
def test_every_wrong_cardinality_is_counted(keys: list[int], change: list[int | None]) -> None:
    stored: Stored = [(key, frozenset(row for row, k in enumerate(keys) if k == key)) for key in sorted(set(keys))]
    said = [None if more is None else keys.count(key) + more for (key, _), more in zip(stored, change, strict=False)]
    table = stored_table("gap", stored, len(keys)).append_column(CARDINALITY, pa.array(said, CARDINALITY.type))
    found = compare_block(definition("gap"), pa.table({"k": pa.array(keys, pa.int32())}), table)
    assert sorted(found.messages) == sorted(
        f"key (k={key}) has cardinality {count}, but {len(held)} rows of the block hold it"
        for (key, held), count in zip(stored, said, strict=True)
        if count != len(held)
    )


@pytest.mark.parametrize("encoding", list(ENCODINGS))
def test_what_the_build_makes_is_right(encoding: str) -> None:
    random = np.random.default_rng(3)
    many = 60 if encoding == "plain" else 700
    keys = pa.table({"k": pa.array(random.integers(0, many, 5000), pa.int32(), mask=random.random(5000) < 0.1)})
    assert compare_block(definition(encoding), keys, index_rows(definition(encoding), keys, "file:/t", 4)).count == 0


def test_each_fault_is_told_in_words() -> None:
    keys = pa.table({"k": pa.array([5, 5, 7, 7, 9, None], pa.int32())})
    stored: Stored = [(5, frozenset({0})), (7, frozenset({1, 2, 3})), (9, frozenset({4, 3})), (8, frozenset({5}))]
    found = compare_block(definition("gap"), keys, stored_table("gap", stored, 6))
    assert sorted(found.messages) == [
        "key (k=8) has a row, but the block does not hold it",
        "key (k=None) has no row, but 1 rows of the block hold it",
        "row 1 is in the bitmap of another key: (k=7)",
        "row 3 is in the bitmaps of several keys",
        "row 5 is in the bitmap of another key: (k=8)",
    ]


def test_a_row_that_no_bitmap_holds() -> None:
    keys = pa.table({"k": pa.array([5, 5], pa.int32())})
    found = compare_block(definition("gap"), keys, stored_table("gap", [(5, frozenset({0}))], 2))
    assert found.messages == ["row 1 is in no bitmap"]


def test_a_bitmap_that_does_not_fit_its_block() -> None:
    keys = pa.table({"k": pa.array([5, 5], pa.int32())})
    found = compare_block(definition("plain"), keys, stored_table("plain", [(5, frozenset({0, 1, 9}))], 10))
    assert found.count == 1 and "ceil(rows / 8)" in found.messages[0]


def test_composite_keys_zeros_and_nan() -> None:
    columns = (Column("d", "double"), Column("e", "decimal(5,2)"))
    composite = Definition(name="i", database="db", table="t", columns=columns)
    keys = pa.table(
        {
            "d": pa.array([0.0, float("nan"), None, float("nan")]),
            "e": pa.array([Decimal(1), None, Decimal(2), None], pa.decimal128(5, 2)),
        }
    )
    stored = index_rows(composite, keys, "file:/t", 4)
    assert compare_block(composite, keys, stored).count == 0
    other = stored.set_column(0, "d", pa.array([-0.0, float("nan"), None]))
    assert compare_block(composite, keys, other).count == 3  # no key 0.0, a key -0.0, a row under it
