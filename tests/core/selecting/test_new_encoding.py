"""A new encoding needs one module and an entry in `bitmaps.ENCODINGS`: a toy encoding is built and looked up."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hive_bitmap.core.bitmaps import ENCODINGS, Encoding, gap, plain
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import define
from hive_bitmap.core.predicates.nodes import Compare, Or
from hive_bitmap.core.selecting.select import Selection, select
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import Unsupported
from tests.core.selecting.test_select import unit_of

INVERTED = pa.field("_inverted", pa.binary())
ROWS = [[{"k": number % 7, "s": "", "f": 0.0} for number in range(first, first + 40)] for first in (0, 40)]


def flipped(column: pa.Array) -> pa.Array:
    return pa.array([bytes(byte ^ 0xFF for byte in value) for value in column.to_pylist()], pa.binary())


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Encoding:
    "An encoding that stores plain bitmaps with all bits inverted, in a column of another name."
    encoding = SimpleNamespace(
        NAME="toy",
        FIELDS=(INVERTED,),
        encode=lambda b: (flipped(plain.encode(b)[0]),),
        decode_into=lambda bits, columns, *where: plain.decode_into(bits, [flipped(columns[0])], *where),
        to_cached=lambda columns: plain.to_cached([flipped(columns[0])]),
        cardinalities=lambda columns, rows: plain.cardinalities([flipped(columns[0])], rows),
    )
    monkeypatch.setitem(ENCODINGS.loads, encoding.NAME, lambda: encoding)
    return encoding


def test_what_a_build_writes_with_it_is_what_a_lookup_selects(tmp_path: Path, toy: Encoding) -> None:
    unit = unit_of(tmp_path, ROWS, {"k": toy.NAME}, {"k": [0, 1]}, block_rows=13)
    found = select(unit, Or((Compare("k", "=", 3), Compare("k", ">", 5))), {})
    selected = [flag for block in range(len(unit.rows)) for flag in flags_of(found, block)]
    assert not found.damaged and found.exact.all()
    assert selected == [row["k"] in (3, 6) for file in ROWS for row in file]
    ((shard, _),) = unit.parts["k"].shards
    assert INVERTED.name in pq.read_schema(shard.removeprefix("file:")).names


def flags_of(found: Selection, block: int) -> list[bool]:
    "For each row of a block, whether it is selected."
    flags = np.zeros(found.unit.rows[block], bool)
    flags[found.block_rows(block)] = True
    return flags.tolist()


def test_its_columns_are_no_names_of_keys(toy: Encoding) -> None:
    table = Table(database="db", name="t", kind="MANAGED", columns=(Column(INVERTED.name, "int"), Column("k", "int")))
    assert define(table, ["k"], encoding=toy.NAME).bitmap_fields == (INVERTED,)
    with pytest.raises(Unsupported, match="has the name of a column of every index table"):
        define(table, [INVERTED.name], encoding=gap.NAME)
