"""Results of lookups are known by all that they depend on: a known one is what `count` returns."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hive_bitmap.core.index import lookup as shards
from hive_bitmap.core.index.fingerprint import Fingerprint
from hive_bitmap.core.predicates.nodes import And, Compare, In, IsNull, Or, Predicate, Prefix, SparkLeaf, Unknown
from hive_bitmap.core.selecting import candidates
from hive_bitmap.core.selecting.candidates import look_up, restrict
from hive_bitmap.core.selecting.lookup_units import DeletedRows, LookupUnit
from hive_bitmap.core.selecting.select import LookupResult, count
from tests.core.selecting.lookups import lookup_of
from tests.core.selecting.test_select import Row, unit_of

ONE, FEW = Compare("k", "=", 1), In("k", (0, 2))
PREDICATES: tuple[Predicate, ...] = (
    ONE,
    FEW,
    In("k", (0, 2), True),
    IsNull("k"),
    IsNull("k", True),
    Compare("k", "<>", 1),
    Prefix("s", "a"),
    Prefix("s", "a, b"),
    And((ONE, Compare("s", "=", "a"))),
    Or((ONE, Compare("s", "=", "a"))),
    And((ONE, Unknown("k > f", "two columns"))),
    In("s", ("a", "b")),
    In("s", ("a', 'b",)),
)


def _files() -> list[list[Row]]:
    texts = ("a", "b", None, "a, b", "a', 'b")
    values: list[Row] = [{"k": n % 4 or None, "s": texts[n % 5], "f": 0.0} for n in range(23)]
    return [values, values[:9], values[::-1]]


def _units(folder: Path) -> list[LookupUnit]:
    """Units that share paths, and differ in one thing each."""
    everything = {"k": [0, 1, 2], "s": [0, 1, 2]}
    units = []
    for number, (kinds, known) in enumerate(
        (
            ({"k": "gap", "s": "roaring"}, everything),
            ({"k": "gap", "s": "roaring"}, {"k": [0, 2], "s": [1]}),
            ({"k": "compact", "s": "roaring"}, everything),
            ({"k": "gap"}, {"k": [0, 1, 2]}),
        )
    ):
        (folder / str(number)).mkdir()
        units.append(unit_of(folder / str(number), _files(), kinds, known))
    first = units[0]
    for rows in ([0, 5], [0, 6]):
        deleted = {first.paths[0]: DeletedRows(repr(rows), np.array(rows, np.int64))}
        units.append(replace(first, deleted=deleted))
    part, elsewhere = first.parts["k"], units[3].parts["k"].shards
    changed = [replace(part, files=np.array(known)) for known in ([0, 1], [0, 2])]
    units += [replace(first, parts={"k": one}) for one in (part, *changed, replace(part, shards=elsewhere))]
    files = [Fingerprint(path=path, size=1, mtime_ms=1, etag="", tail_crc32=1) for path in first.paths]
    whole = lookup_of(first, ONE, fingerprints=files)
    units += [restrict(whole, kept).unit for kept in ([0], [1], [2], [0, 1], [0, 2])]
    return units


def _facts(found: LookupResult) -> tuple[list[int], list[bool], list[int], int]:
    return found.counts.tolist(), found.exact.tolist(), sorted(found.damaged), found.index_bytes


def test_what_is_known_is_what_a_lookup_finds(tmp_path: Path) -> None:
    cases = [(unit, predicate) for unit in _units(tmp_path) for predicate in PREDICATES] * 3
    random.Random(7).shuffle(cases)
    for unit, predicate in cases:
        assert _facts(look_up(lookup_of(unit, predicate), {})) == _facts(count(unit, predicate, {})), predicate


def test_a_lookup_is_done_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit, done = unit_of(tmp_path, _files(), {"k": "gap"}, {"k": [0, 1, 2]}), []
    monkeypatch.setattr(candidates, "count", lambda *arguments: done.append(arguments) or count(*arguments))
    first = look_up(lookup_of(unit, ONE), {})
    assert look_up(lookup_of(unit, ONE), {}) is first and len(done) == 1
    with pytest.raises(ValueError, match="read-only"):
        first.counts[0] = 7  # several queries share it
    shards.clear_caches()
    assert _facts(look_up(lookup_of(unit, ONE), {})) == _facts(first) and len(done) == 2


def test_what_spark_evaluates_is_looked_up_each_time(tmp_path: Path) -> None:
    unit, leaf = unit_of(tmp_path, _files(), {"k": "gap"}, {"k": [0, 1, 2]}), SparkLeaf("k = year(s)", "k")
    found = [look_up(lookup_of(unit, leaf), {leaf: pa.array(keys, pa.int32())}) for keys in ([1], [1, 2])]
    assert 0 < found[0].counts.sum() < found[1].counts.sum()


def test_a_damaged_index_is_looked_up_again(tmp_path: Path) -> None:
    unit = unit_of(tmp_path, _files(), {"k": "gap"}, {"k": [0, 1, 2]})
    whole = look_up(lookup_of(unit, ONE), {})
    shard = Path(unit.parts["k"].shards[0][0].removeprefix("file:"))
    away = shard.rename(shard.with_name("away"))
    shards.clear_caches()
    assert look_up(lookup_of(unit, ONE), {}).damaged
    away.rename(shard)
    assert _facts(look_up(lookup_of(unit, ONE), {})) == _facts(whole)
