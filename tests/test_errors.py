"""Errors: what they say of unknown names and places in texts, and by which classes of SQL clients know them."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path

import pyspark
import pytest

from hive_bitmap import errors
from hive_bitmap.errors import HiveBitmapError, InvalidPredicate, NotFound, nearest, suggestion

ALL = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, HiveBitmapError) and value is not HiveBitmapError
]


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("Encodng", ["encoding", "comment"], "encoding"),
        ("ENCODING", ["Encoding"], "Encoding"),  # as it is spelled
        ("x", ["encoding"], ""),
        ("", ["encoding"], ""),
        ("encoding", [], ""),
        ("carier", ["carrier_name", "carrier"], "carrier"),
    ],
)
def test_the_name_that_was_probably_meant(name: str, known: list[str], meant: str) -> None:
    assert nearest(name, known) == meant
    assert suggestion(name, known) == (f"; did you mean {meant!r}?" if meant else "")


@pytest.mark.parametrize(
    ("where", "known", "said"),
    [
        ("", [], "no column 'agee'; known: none"),
        ("table db.t", [], "no column 'agee' in table db.t; known: none"),
        ("", ["id"], "no column 'agee'; known: id"),
        ("", ["id", "age"], "no column 'agee'; known: id, age; did you mean 'age'?"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(where: str, known: list[str], said: str) -> None:
    assert str(NotFound.of("column", "agee", iter(known), where)) == said


@pytest.mark.parametrize(
    ("text", "offset", "place"),
    [
        ("a = ", 4, "line 1, column 5"),
        ("", 0, "line 1, column 1"),
        ("a\nbc", 2, "line 2, column 1"),
        ("a\n\n", 3, "line 3, column 1"),
    ],
)
def test_places_are_counted_from_one(text: str, offset: int, place: str) -> None:
    assert str(InvalidPredicate.at(text, offset, "why")) == f"{place}: why, in {text!r}"


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_an_error_goes_between_processes(kind: type[HiveBitmapError]) -> None:
    found = pickle.loads(pickle.dumps(kind("why")))
    assert type(found) is kind and str(found) == "why"
    assert (kind.condition is None) == (kind.sqlstate is None)


def test_conditions_are_sparks_and_have_their_states() -> None:
    [jar] = (Path(pyspark.__file__).parent / "jars").glob("spark-common-utils_*.jar")
    with zipfile.ZipFile(jar) as files:
        known = json.loads(files.read("error/error-conditions.json"))
    ours = {kind.condition: kind.sqlstate for kind in ALL if kind.condition is not None}
    assert len(ours) == 9
    assert {name: known[name].get("sqlState") for name in ours} == ours


def test_who_asks_for_a_class_gets_its_special_cases() -> None:
    assert issubclass(errors.DroppedIndex, errors.CorruptIndex)
    assert issubclass(errors.NotPermitted, errors.ServerError)
    assert issubclass(errors.MissingPackage, ImportError)
    assert not issubclass(errors.StoreError, OSError)  # so that nobody takes it for a damaged file
