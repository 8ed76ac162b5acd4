"""Indexes of tables whose files a log tells: definitions, what no longer fits them, fingerprints that never change."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import fingerprint, schema_drift
from hive_bitmap.core.index.definition import Definition, define, from_properties, to_properties
from hive_bitmap.core.stores import IMMUTABLE, WITH_DELETES, FileStatus
from hive_bitmap.core.table_info import Lake, Table
from hive_bitmap.errors import HiveBitmapError

COLUMNS = (
    Column("k", "int", file_name="col-1"),
    Column("n", "int", file_name="col-2", field_id=7),
    Column("p", "string"),
)
BASE = Table(database="d", name="t", kind="MANAGED", provider="delta", columns=COLUMNS, lake=Lake("delta", ("p",)))
INDEX = define(BASE, ["k", "n"], name="i")
FILE = FileStatus("s3a://b/f", 10, 99, IMMUTABLE)


def test_a_definition_is_kept_with_the_names_in_files() -> None:
    properties = to_properties(INDEX)
    assert (properties["hive_bitmap.version"], properties["hive_bitmap.source"]) == ("3", "delta")
    assert json.loads(properties["hive_bitmap.columns"]) == [["k", "int", "col-1"], ["n", "int", "col-2", 7]]
    found = from_properties(properties)
    assert found == replace(INDEX, index_table="") and found is not None and found.columns == COLUMNS[:2]
    assert define(BASE, ["k", "n"], name="i", index_database="idx") == INDEX, "its table has no pointer"


def test_a_definition_says_the_catalog_of_its_table() -> None:
    columns = (Column("k", "int", field_id=3), Column("p", "string", field_id=4))
    base = Table(database="d", name="t", kind="EXTERNAL", columns=columns, lake=Lake("iceberg", ("p",)), catalog="lake")
    index = define(base, ["k"], name="i")
    properties = to_properties(index)
    assert (properties["hive_bitmap.version"], properties["hive_bitmap.source"]) == ("3", "iceberg")
    assert properties["hive_bitmap.table"] == index.full_table == "lake.d.t"
    assert json.loads(properties["hive_bitmap.columns"]) == [["k", "int", "", 3]]
    assert from_properties(properties) == replace(index, index_table="")
    assert index.is_on(base) and not index.is_on(replace(base, catalog=""))
    assert index.spark_name == "spark_catalog.`d`.`d__t_i__`"
    moved = replace(base, lake=Lake("iceberg", ("k",)))
    told = schema_drift.problem(moved, index)
    assert told == "column k partitions table lake.d.t now: drop index i"


def test_a_reader_of_files_knows_no_other_source() -> None:
    for changed in ({"hive_bitmap.source": "paimon"}, {"hive_bitmap.version": "1"}, {"hive_bitmap.version": "4"}):
        assert from_properties({**to_properties(INDEX), **changed}) is None
    plain = Definition(name="i", database="d", table="t", columns=(Column("k", "int"),))
    assert to_properties(plain)["hive_bitmap.version"] == "3"
    assert "hive_bitmap.source" not in to_properties(plain)


@pytest.mark.parametrize(
    ("base", "problem"),
    [
        (BASE, ""),
        (replace(BASE, columns=(*COLUMNS, Column("more", "int"))), ""),
        (replace(BASE, columns=(Column("k", "int", file_name="col-9"), *COLUMNS[1:])), "another column of that name"),
        (replace(BASE, columns=(COLUMNS[0], replace(COLUMNS[1], field_id=8))), "another column of that name"),
        (replace(BASE, columns=(replace(COLUMNS[0], name="j"), COLUMNS[1])), "is gone"),
        (replace(BASE, columns=(replace(COLUMNS[0], type="bigint"), COLUMNS[1])), "is bigint"),
        (replace(BASE, lake=None), "is no longer delta"),
        (replace(BASE, lake=Lake("delta", problem="its log cannot be read")), "its log cannot be read"),
    ],
)
def test_what_the_table_has_become(base: Table, problem: str) -> None:
    told = schema_drift.problem(base, INDEX)
    assert problem in told and bool(told) == bool(problem)


def test_an_index_of_files_does_not_fit_a_table_that_has_a_log_now() -> None:
    before = define(replace(BASE, lake=None), ["k"])
    assert "is delta now" in schema_drift.problem(BASE, before)


@pytest.mark.parametrize(
    ("columns", "how"),
    [
        (["p"], {}),
        (["k"], {"where": "p = 'x'"}),
        (["k"], {"index_table": "x"}),
    ],
)
def test_what_such_an_index_cannot_be(columns: list[str], how: dict[str, object]) -> None:
    with pytest.raises(HiveBitmapError, match="delta table"):
        define(BASE, columns, **how)  # type: ignore[arg-type]


def test_a_file_of_a_log_is_the_same_for_ever() -> None:
    known = fingerprint.immutable(FILE)
    assert known.matches(FILE) and known.confirmed() and not known.tagged
    for other in (replace(FILE, size=11), replace(FILE, mtime_ms=98), replace(FILE, etag=WITH_DELETES)):
        assert not known.matches(other)
    assert FILE.changed_ms == replace(FILE, path="file:/f").changed_ms == 99
