"""Which files are looked up, read whole or left out, and by which index: manifests are made by hand, without shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.manifest import FILES, SHARDS, Freshness, Manifest
from hive_bitmap.core.predicates.nodes import (
    FALSE,
    NULL,
    TRUE,
    And,
    Compare,
    In,
    IsNull,
    Or,
    Predicate,
    Prefix,
    SparkLeaf,
    Unknown,
    columns_of,
)
from hive_bitmap.core.segments.covered import Covered
from hive_bitmap.core.selecting.candidates import (
    Lookup,
    LookupResults,
    choose_indexes,
    exact_where_covered,
    look_up_all,
    look_up_files,
    residual_predicates,
    restrict,
)
from hive_bitmap.core.selecting.select import LookupResult
from hive_bitmap.core.selecting.table_files import FileRecords, PartitionState, TableFiles, listing_of
from hive_bitmap.core.stores import FileStatus
from tests.core.selecting.lookups import lookup_of
from tests.core.selecting.test_select import truth, unit_of

K, S = Compare("k", "=", 1), Compare("s", "=", "a")


def index(name: str, *columns: str, **how: str) -> Definition:
    return Definition(name=name, database="db", table="t", columns=tuple(Column(c, "int") for c in columns), **how)  # type: ignore[arg-type]


BY_K, BY_S = index("by_k", "k"), index("by_s", "s")


@dataclass(frozen=True)
class Known:
    """What a manifest says of a file: whether it is the file as it is now, and its shard; None if it has none."""

    fresh: bool
    shard: str | None

    @property
    def usable(self) -> bool:
        return self.fresh and self.shard is not None


def manifest(name: str, files: dict[int, Known], gone: int = 0, partition: int = 0) -> Manifest:
    """Make the manifest of a segment of one partition: file n has n blocks, and `gone` files are no longer there."""
    rows: list[dict[str, Any]] = [
        {
            "path": f"file:/{partition}/{number}",
            "values": [str(partition)],
            "size": 100,
            "mtime_ms": 5 if known.fresh else 4,
            "etag": "",
            "tail_crc32": number,
            "shard": known.shard,
            "reason": "" if known.shard else "encrypted",
            "schema_crc": 7,
            "foreign": [],
            "indirect": [f"C{number}"],
            "offsets": [4 + 10 * block for block in range(number)],
            "lengths": [10] * number,
            "rows": [block + 1 for block in range(number)],
        }
        for number, known in files.items()
    ]
    rows += [{**GONE, "path": f"file:/{partition}/gone{n}", "values": [str(partition)]} for n in range(gone)]
    held = [{"shard": shard, "size": 1000 + len(shard), "rows": 10 + int(shard)} for shard in ("1", "2")]
    return Manifest(f"file:/i{partition}/{name}", pa.Table.from_pylist(rows, FILES), pa.Table.from_pylist(held, SHARDS))


GONE: dict[str, Any] = {
    "size": 1,
    "mtime_ms": 1,
    "etag": "",
    "tail_crc32": 0,
    "shard": "1",
    "reason": "",
    "schema_crc": 7,
} | {name: [] for name in ("indirect", "offsets", "lengths", "rows")}


def partition(files: int, number: int = 0) -> PartitionState:
    statuses = tuple(FileStatus(f"file:/{number}/{file}", 100, 5, "") for file in range(files))
    return PartitionState(name=f"p={number}", values=(str(number),), files=statuses)


def table(partitions: Sequence[PartitionState], manifests: Sequence[Manifest]) -> TableFiles:
    """Return the files of partitions, and what the indexes know of them, of which these are all manifests."""
    known = {}
    for name in dict.fromkeys(one.folder.rpartition("/")[2] for one in manifests):
        covered = Covered.by([one for one in manifests if one.folder.endswith(f"/{name}")])
        numbers = np.array([covered.numbers.get(one.values, -1) for one in partitions], np.int64)
        known[name] = FileRecords.of(covered, listing_of(partitions), numbers)
    return TableFiles(partitions=tuple(partitions), records=known)


def nothing_found(lookups: Sequence[Lookup]) -> list[LookupResult]:
    return [
        LookupResult(
            counts=np.zeros(len(one.unit.rows), np.int64),
            exact=np.ones(len(one.unit.paths), bool),
            damaged={},
            index_bytes=number,
        )
        for number, one in enumerate(lookups)
    ]


KNOWN = st.builds(Known, st.booleans(), st.sampled_from([None, "1", "2"]))
OF_AN_INDEX = st.one_of(st.none(), st.dictionaries(st.integers(0, 4), KNOWN))
CASES = st.tuples(st.integers(0, 5), OF_AN_INDEX, OF_AN_INDEX, st.integers(0, 2))
CHOSEN = {"k": BY_K, "s": BY_S}


@given(st.lists(CASES, max_size=3), st.lists(st.sampled_from([TRUE, K, FALSE, NULL]), min_size=3, max_size=3))
@settings(max_examples=200)
def test_each_file_is_looked_up_where_an_index_knows_it_as_it_is_and_else_read_whole(
    cases: list[tuple[int, dict[int, Known] | None, dict[int, Known] | None, int]], predicates: list[Predicate]
) -> None:
    predicates = predicates[: len(cases)]
    partitions, manifests, knows = [], list[Manifest](), []
    for number, (files, of_k, of_s, gone) in enumerate(cases):
        told = {name: known for name, known in (("by_k", of_k), ("by_s", of_s)) if known is not None}
        knows.append((told, gone))
        partitions.append(partition(files, number))
        manifests += [manifest(name, known, gone, number) for name, known in told.items()]
    state = table(partitions, manifests)
    found = look_up_files(state, predicates, CHOSEN, nothing_found)
    assert found.partitions == tuple(partitions)
    assert [result.index_bytes for result in found.results] == list(range(len(found.lookups)))
    deleted = dict.fromkeys(CHOSEN, 0)
    for number, (one, predicate, (told, gone)) in enumerate(zip(partitions, predicates, knows, strict=True)):
        lookups = [lookup for lookup in found.lookups if set(lookup.partitions) == {number}]
        whole = [file for file in found.whole_files if file.partition == number]
        if predicate in (FALSE, NULL):  # no row of the partition matches
            assert not lookups and not whole
            continue
        count = len(one.files)
        for column, definition in CHOSEN.items():
            known = told.get(definition.name)
            deleted[column] += 0 if known is None else sum(file >= count for file in known) + gone
        usable = {
            file: [name for name, known in told.items() if file in known and known[file].usable]
            for file in range(count)
        }
        paths = [path for lookup in lookups for path in lookup.unit.paths]
        assert sorted(paths) == [f"file:/{number}/{file}" for file in range(count) if usable[file]]
        assert [file.status.path for file in whole] == [
            f"file:/{number}/{file}" for file in range(count) if not usable[file]
        ]
        for file in whole:
            require_reason(told, set(state.records), int(file.status.path[8:]), file.freshness, file.reason)
        for lookup in lookups:
            require_unit(lookup, predicate, told, set(state.records), number)
    assert found.deleted == max(deleted.values())


def require_reason(
    told: dict[str, dict[int, Known]], indexes: set[str], file: int, freshness: Freshness, reason: str
) -> None:
    known = next((known[file] for known in told.values() if file in known), None)
    if known is None:
        why = "new since the last build" if indexes else "no index covers its partition"
        assert (freshness, reason) == (Freshness.UNINDEXED, why)
    elif known.shard is None:
        assert (freshness, reason) == (Freshness.UNINDEXED, "encrypted")
    else:
        assert (freshness, reason) == (Freshness.STALE, "changed since it was indexed")


def require_unit(
    lookup: Lookup, predicate: Predicate, told: dict[str, dict[int, Known]], indexes: set[str], number: int
) -> None:
    """The blocks are those of the files, and each part has the files and shards that its index knows."""
    unit, files = lookup.unit, [int(path[8:]) for path in lookup.unit.paths]
    assert lookup.predicate == predicate
    blocks = [(at, 4 + 10 * block, 10, block + 1) for at, file in enumerate(files) for block in range(file)]
    assert list(zip(*(a.tolist() for a in (unit.file, unit.offset, unit.length, unit.rows)), strict=True)) == blocks
    assert [one.tail_crc32 for one in lookup.fingerprints] == files
    assert lookup.spark_only == tuple(frozenset([f"c{file}"]) for file in files)
    assert lookup.described["schema_crc"].to_pylist() == [7] * len(files)
    names = {column: CHOSEN[column].name for column in CHOSEN if CHOSEN[column].name in indexes}
    assert set(unit.parts) == set(names)
    for column, name in names.items():
        part, known = unit.parts[column], told.get(name, {})
        mine = [at for at, file in enumerate(files) if file in known and known[file].usable]
        assert part.files.tolist() == mine
        shards = {str(known[files[at]].shard) for at in mine}
        assert dict(part.shards) == {f"file:/i{number}/{name}/{shard}": 1001 for shard in shards}
        assert part.entries == sum(10 + int(shard) for shard in shards) and len(part.shards) == len(shards)
        assert (part.index, part.key.name, part.encoding) == (name, column, "gap")


def test_files_are_grouped_by_the_shards_of_the_index_that_knows_most_of_them() -> None:
    more = manifest("by_s", {n: Known(True, shard) for n, shard in enumerate("1212")})
    fewer = manifest("by_k", {0: Known(True, "1"), 1: Known(True, "1"), 2: Known(False, "1"), 4: Known(True, "1")})
    found = look_up_files(table([partition(5)], [fewer, more]), [K], CHOSEN, nothing_found)
    files = [[int(path[8:]) for path in one.unit.paths] for one in found.lookups]
    assert files == [[0, 2], [1, 3], [4]] and not found.whole_files


def test_files_of_many_partitions_in_one_shard_are_one_unit_for_each_residual_predicate() -> None:
    rows = [manifest("by_k", {0: Known(True, "1")}, partition=number).files for number in range(4)]
    one = replace(manifest("by_k", {}), files=pa.concat_tables(rows))
    found = look_up_files(table([partition(1, n) for n in range(4)], [one]), [K, S, FALSE, K], CHOSEN, nothing_found)
    assert [(lookup.partitions, lookup.predicate) for lookup in found.lookups] == [((0, 3), K), ((1,), S)]


def test_a_path_in_several_shards_is_looked_up_by_itself() -> None:
    """Two partitions share a folder: a shard of the one must not be asked for rows of the other."""
    first, second = (manifest("by_k", {n: Known(True, "1") for n in range(2)}) for _ in range(2))
    values = pa.array([["1"]] * 2, FILES.field("values").type)
    of_other = second.files.set_column(FILES.get_field_index("values"), FILES.field("values"), values)
    manifests = [first, replace(second, folder="file:/i1/by_k", files=of_other)]
    state = [partition(2), replace(partition(2), values=("1",))]
    found = look_up_files(table(state, manifests), [K, K], CHOSEN, nothing_found)
    places = [(lookup.partitions, lookup.unit.paths, lookup.unit.parts["k"].shards[0][0]) for lookup in found.lookups]
    assert sorted(places) == [((p,), (f"file:/0/{n}",), f"file:/i{p}/by_k/1") for p in range(2) for n in range(2)]


def test_an_index_that_was_not_chosen_does_not_matter() -> None:
    other = manifest("other", {0: Known(True, "1"), 1: Known(True, "1")}, gone=3)
    found = look_up_files(table([partition(2)], [other]), [K], {"k": BY_K}, nothing_found)
    assert [file.reason for file in found.whole_files] == ["no index covers its partition"] * 2
    assert (found.lookups, found.results, found.deleted) == ((), (), 0)


class TestChoice:
    """By which index a column is looked up."""

    @pytest.mark.parametrize(
        ("indexes", "predicate", "keys", "chosen"),
        [
            ([], K, (), {}),
            ([BY_K], S, (), {}),
            ([BY_K, BY_S], And((K, S)), (), {"k": "by_k", "s": "by_s"}),
            ([index("ab", "K", "s"), BY_K], And((K, S)), (), {"k": "by_k", "s": "ab"}),
            ([index("a", "k", type="COMPACT"), index("z", "k", "s", "x")], K, (), {"k": "z"}),
            ([index("a", "k", type="COMPACT")], K, (), {"k": "a"}),
            ([index("b", "k"), index("a", "k")], K, (), {"k": "a"}),
            ([BY_K, BY_S], Unknown("?", "?"), (), {}),
            # without tests and keys any index knows the number of rows
            ([BY_S, BY_K], TRUE, (), {"": "by_k"}),
            ([], TRUE, (), {}),
            # an index of all keys counts without bitmaps, best with the tested columns as well
            ([BY_K, BY_S, index("ks", "k", "s")], K, ("s",), {"k": "ks", "s": "ks"}),
            ([BY_K, BY_S], K, ("s",), {"k": "by_k", "s": "by_s"}),
            ([BY_K, BY_S, index("sx", "s", "x")], K, ("s", "x"), {"k": "by_k", "s": "sx", "x": "sx"}),
            ([BY_K, BY_S], TRUE, ("k",), {"k": "by_k"}),
            # COMPACT serves no key
            ([index("c", "s", type="COMPACT")], K, ("s",), {}),
            ([index("c", "k", "s", type="COMPACT")], K, ("s",), {"k": "c"}),
        ],
    )
    def test_by_example(
        self, indexes: list[Definition], predicate: Predicate, keys: tuple[str, ...], chosen: dict[str, str]
    ) -> None:
        found = choose_indexes(indexes, predicate, keys)
        assert {column: definition.name for column, definition in found.items()} == chosen

    @given(
        st.lists(
            st.tuples(st.sets(st.sampled_from("KSx"), min_size=1), st.sampled_from(["BITMAP", "COMPACT"])), max_size=4
        ),
        st.sampled_from([K, S, And((K, S))]),
        st.sets(st.sampled_from("ksx")),
    )
    def test_a_column_that_an_index_can_serve_is_served(
        self, described: list[tuple[set[str], str]], predicate: Predicate, keys: set[str]
    ) -> None:
        indexes = [index(f"i{n}", *sorted(columns), type=kind) for n, (columns, kind) in enumerate(described)]
        found = choose_indexes(indexes, predicate, tuple(sorted(keys)))
        able = {
            column: [
                one
                for one in indexes
                if column in {name.lower() for name in one.column_names}
                and (one.has_bitmaps or column in columns_of(predicate))
            ]
            for column in columns_of(predicate) | keys
        }
        assert set(found) == {column for column, some in able.items() if some}
        assert all(definition in able[column] for column, definition in found.items())
        for column, definition in found.items():
            assert definition.has_bitmaps or not any(one.has_bitmaps for one in able[column])
        if any(keys <= {name.lower() for name in one.column_names} and one.has_bitmaps for one in indexes) and keys:
            assert len({found[key].name for key in keys}) == 1


PARTITIONS = (Column("p", "int"), Column("Q", "string"))
LEAVES = st.one_of(
    st.builds(Compare, st.sampled_from("pP"), st.sampled_from(["=", "<>", "<", ">="]), st.integers(0, 2)),
    st.builds(In, st.just("p"), st.just((0, 2)), st.booleans()),
    st.builds(IsNull, st.sampled_from("pqk"), st.booleans()),
    st.builds(Prefix, st.just("q"), st.sampled_from(["", "a"]), st.booleans()),
    st.builds(Compare, st.just("k"), st.just("="), st.integers(0, 2)),
    st.sampled_from([TRUE, FALSE, NULL]),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.builds(
        lambda kind, children: kind(tuple(children)),
        st.sampled_from([And, Or]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=6,
)


class TestResiduals:
    """What is left of a predicate in a partition."""

    @given(TREES)
    def test_it_is_true_for_the_same_rows(self, predicate: Predicate) -> None:
        values = list(product([None, 0, 1, 2], [None, "a", "b"]))
        typed = pa.table({"p": pa.array([p for p, _ in values], pa.int32()), "Q": pa.array([q for _, q in values])})
        residuals = residual_predicates(predicate, PARTITIONS, typed, {})
        for (p, q), residual in zip(values, residuals, strict=True):
            assert columns_of(residual) <= {"k"}
            for k in (None, 0, 1, 2):
                row = {"p": p, "P": p, "q": q, "k": k}
                assert truth(residual, row) == truth(predicate, row)

    def test_what_tests_no_partition_column_stays_as_it_is(self) -> None:
        found = residual_predicates(And((K, S)), PARTITIONS, pa.table({"p": [1, 2], "Q": ["a", "b"]}), {})
        assert found == [And((K, S))] * 2

    def test_values_that_could_not_be_typed_may_match(self) -> None:
        leaf = SparkLeaf("hash(p) = 1", "p")
        values = pa.table({"p": pa.array([1, 2], pa.int32())})
        q = Compare("q", "=", "a")
        assert (
            residual_predicates(And((q, K)), PARTITIONS, values, {})
            == [And((Unknown(str(q), "the partition values are left to Spark"), K))] * 2
        )
        assert (
            residual_predicates(leaf, PARTITIONS, values, {})
            == [Unknown("hash(p) = 1", "the partition values are left to Spark")] * 2
        )
        assert residual_predicates(leaf, PARTITIONS, values, {leaf: pa.array([2], pa.int32())}) == [FALSE, TRUE]


def results_of(known: dict[int, Known], files: int) -> LookupResults:
    manifests = [manifest("by_k", {n: Known(True, "1") for n in range(files)}), manifest("by_s", known)]
    return look_up_files(table([partition(files)], manifests), [K], CHOSEN, nothing_found)


@given(st.dictionaries(st.integers(0, 3), KNOWN), st.sampled_from([(), ("k",), ("s",), ("k", "s"), ("x",)]))
def test_counts_are_exact_only_where_the_indexes_of_all_keys_know_the_file(
    known: dict[int, Known], keys: tuple[str, ...]
) -> None:
    found = results_of(known, 4)
    exact = {}
    for lookup, result in exact_where_covered(found, keys).pairs():
        exact.update(zip(lookup.unit.paths, result.exact.tolist(), strict=True))
    by_s = {f"file:/0/{file}" for file, one in known.items() if one.usable}
    assert exact == {
        path: "x" not in keys and ("s" not in keys or path in by_s) for path in (f"file:/0/{file}" for file in range(4))
    }
    assert all(result.exact.all() for result in found.results)  # the given ones are not changed


@pytest.mark.parametrize("type", ["COMPACT", "AGGREGATE"])
def test_no_count_is_exact_by_an_index_that_selects_blocks(type: str) -> None:
    """It serves a grouping column only because the condition tests it, here in another partition."""
    chosen = {"k": index("by_k", "k", type=type)}
    segment = manifest("by_k", {number: Known(True, "1") for number in range(3)})
    found = look_up_files(table([partition(3)], [segment]), [TRUE], chosen, nothing_found)
    assert [result.exact.any() for result in exact_where_covered(found, ("k",)).results] == [False]
    assert [result.exact.all() for result in exact_where_covered(found, ()).results] == [True]


@given(st.dictionaries(st.integers(0, 4), KNOWN), st.data())
def test_a_lookup_of_some_files_is_the_same_but_for_the_others(known: dict[int, Known], data: st.DataObject) -> None:
    for lookup in results_of(known, 5).lookups:
        wanted = data.draw(st.lists(st.integers(0, len(lookup.unit.paths) - 1), unique=True).map(sorted))
        some = restrict(lookup, wanted)
        assert some.unit.paths == tuple(lookup.unit.paths[n] for n in wanted)
        told = {"by_k": {n: Known(True, "1") for n in range(5)}, "by_s": known}
        assert (some.partitions, some.predicate) == ((0,) * len(wanted), lookup.predicate)
        for name in ("file", "offset", "length", "rows"):
            assert len(getattr(some.unit, name)) == sum(int(path[8:]) for path in some.unit.paths)
        blocks = [(wanted.index(f), o, r) for f, o, r in blocks_of(lookup) if f in wanted]
        assert blocks_of(some) == sorted(blocks)
        for column, part in some.unit.parts.items():
            mine = told[CHOSEN[column].name]
            paths = [int(some.unit.paths[n][8:]) for n in part.files]
            assert paths == [n for n in (int(path[8:]) for path in some.unit.paths) if n in mine and mine[n].usable]
            assert part.shards == lookup.unit.parts[column].shards
        assert [one.path for one in some.fingerprints] == list(some.unit.paths)
        assert some.spark_only == tuple(frozenset([f"c{path[8:]}"]) for path in some.unit.paths)
        assert some.described.num_rows == len(wanted)


def blocks_of(lookup: Lookup) -> list[tuple[int, int, int]]:
    unit = lookup.unit
    return list(zip(unit.file.tolist(), unit.offset.tolist(), unit.rows.tolist(), strict=True))


def test_lookups_of_real_shards_come_in_their_order(tmp_path_factory: pytest.TempPathFactory) -> None:
    lookups, expected = [], []
    for number in range(3):
        rows = [{"k": n % (number + 2), "s": "a", "f": 0.0} for n in range(20)]
        unit = unit_of(tmp_path_factory.mktemp("w"), [rows], {"k": "gap"}, {"k": [0]})
        lookups.append(lookup_of(unit, K))
        expected.append(sum(row["k"] == 1 for row in rows))
    assert [int(found.counts.sum()) for found in look_up_all(lookups, {})] == expected


def test_a_simplified_residual_is_a_constant_where_the_values_decide() -> None:
    values = pa.table({"p": pa.array([1, 2, None], pa.int32())})
    p = Compare("p", "=", 1)
    assert residual_predicates(And((p, K)), PARTITIONS, values, {}) == [K, FALSE, FALSE]
    assert residual_predicates(Or((p, K)), PARTITIONS, values, {}) == [TRUE, K, K]


def test_a_row_of_a_manifest_describes_one_file_only() -> None:
    """Partitions p=01 and p=1 of an INT column have equal values, and may share a folder."""
    [first] = [partition(2)]
    both = (first, replace(first, name="p=00", values=("00",)))
    covered = Covered.by([manifest("a", {0: Known(True, "1"), 1: Known(True, "1")})])
    assert FileRecords.of(covered, listing_of([first]), np.array([0])).fresh.all()
    assert not FileRecords.of(covered, listing_of(both), np.array([0, 0])).fresh.any()
