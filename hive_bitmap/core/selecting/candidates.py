"""Choose the files that may have matching rows, and look up these files.

Partitions are pruned first. Files that are fresh in an index are looked up; all other files are read whole. Files with
the same shard are looked up together, as one unit, even if they are in different partitions. Lookups find the index
rows of a file by its path. If partitions share a folder, several shards of an index may have rows of the same path. A
file with such a path is a unit of its own, so that only the shard of the file is read. All functions are pure, except
that lookups read shards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import fingerprint
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.fingerprint import Fingerprint
from hive_bitmap.core.index.manifest import Freshness
from hive_bitmap.core.index.shard import key_fields
from hive_bitmap.core.parallel import map_parallel
from hive_bitmap.core.predicates.nodes import (
    TRUE,
    And,
    Constant,
    Or,
    Predicate,
    SparkLeaf,
    Unknown,
    columns_of,
    leaves_of,
    simplify,
)
from hive_bitmap.core.selecting.key_matches import MatchingKeys, key_matches
from hive_bitmap.core.selecting.lookup_units import ANY_KEY, Flags, IndexPart, Longs, LookupUnit
from hive_bitmap.core.selecting.select import LookupResult, count, count_whole_blocks
from hive_bitmap.core.selecting.table_files import FileRecords, PartitionState, TableFiles
from hive_bitmap.core.stores import FileStatus, is_local

FINGERPRINT = [field.name for field in fields(Fingerprint)]
DESCRIBED = (
    "size",
    "mtime_ms",
    "etag",
    "tail_crc32",
    "schema_crc",
    "foreign",
    "starts",
    "nested",
)  # columns of a manifest
LOOKED_UP = ("path", "offsets", "lengths", "rows", *DESCRIBED)
REMOTE_READS = 16  # concurrent lookups in shards that are read over a network


@dataclass(frozen=True, kw_only=True)
class Lookup:
    """Fresh files that are looked up together.

    All fields except `unit` and `predicate` have an item for each file of `unit`. `described` has the row of each file
    in its manifest, with the columns DESCRIBED. `deletes` has the `FileStatus.deletes` of each file. `deletes` is empty
    if no file has deleted rows.
    """

    partitions: tuple[int, ...]  # their positions in `LookupResults.partitions`
    numbers: Longs  # positions of the files in `TableFiles.files`
    unit: LookupUnit
    predicate: Predicate  # the residual predicate once the values of the partitions are substituted
    described: pa.Table
    spark_only: tuple[frozenset[str], ...]  # lower-case names of columns that Arrow may read differently from Spark
    deletes: tuple[str, ...] = ()

    @property
    def sizes(self) -> Longs:
        """The size of each file in bytes."""
        sizes: Longs = self.described["size"].to_numpy()
        return sizes

    @cached_property
    def fingerprints(self) -> tuple[Fingerprint, ...]:
        columns = (self.described[name].to_pylist() for name in ("size", "mtime_ms", "etag", "tail_crc32"))
        return tuple(
            Fingerprint(path=path, size=size, mtime_ms=mtime_ms, etag=etag, tail_crc32=crc)
            for path, size, mtime_ms, etag, crc in zip(self.unit.paths, *columns, strict=True)
        )

    def matches(self, listed: Sequence[FileStatus]) -> Flags:
        """Return for each file whether its listed status shows it unchanged.

        listed[i] is the status of file i of the unit. See `Fingerprint.matches`.
        """
        sizes, times = (np.array([getattr(file, name) for file in listed], np.int64) for name in ("size", "mtime_ms"))
        return fingerprint.matching(self.described, sizes, times, pa.array([file.etag for file in listed], pa.string()))

    def schema_crc(self, file: int) -> int:
        """Return the `definition.schema_crc` of the table when a file was indexed.

        `file` is the position of the file in the unit.
        """
        return int(self.described["schema_crc"][file].as_py())

    def foreign(self, file: int) -> frozenset[str] | None:
        """Return the names in a file that were foreign to its table.

        A foreign name is a column of the file that the table did not have when the file was indexed. The names are in
        lower case. Return None if an older build did not record foreign names.
        """
        names = self.described["foreign"][file].as_py()
        return None if names is None else frozenset(names)

    def nested_marks(self, file: int) -> frozenset[str]:
        """Return the marks of a file's nested columns.

        The result is empty if an older build did not record marks.
        """
        return frozenset(self.described["nested"][file].as_py() or ())

    def starts(self, file: int) -> Longs | None:
        """Return where each block of a file starts, in bytes.

        Return None if an older build did not record these positions.
        """
        starts = self.described["starts"][file].as_py()
        return None if starts is None else np.array(starts, np.int64)


@dataclass(frozen=True)
class WholeFile:
    """A file that is read whole, because it is not fresh in any index."""

    partition: int  # its position in `LookupResults.partitions`
    status: FileStatus
    freshness: Freshness  # STALE or UNINDEXED
    reason: str  # why no index can be used for it; may be empty


@dataclass(frozen=True, kw_only=True)
class LookupResults:
    """The results of looking up all files that may have matching rows.

    The planner chooses a strategy from these results.
    """

    partitions: tuple[PartitionState, ...]
    lookups: tuple[Lookup, ...]
    results: tuple[LookupResult, ...]  # results[i] is the result of lookups[i]
    whole_files: tuple[WholeFile, ...]
    deleted: int  # how many indexed files no longer exist
    matching_keys: MatchingKeys = field(default_factory=dict)  # the keys for which Spark's leaves are TRUE

    def pairs(self) -> Iterator[tuple[Lookup, LookupResult]]:
        """Yield each lookup with its result."""
        return zip(self.lookups, self.results, strict=True)


def look_up(lookup: Lookup, matching_keys: MatchingKeys) -> LookupResult:
    """Count the rows that may match in each block of a lookup.

    If the index with the aggregates does not serve all tested columns (`is_tested_elsewhere`), the result is that of
    `count_whole_blocks`. `matching_keys` has the keys for which the leaves that only Spark evaluates are TRUE.
    """
    counting = count_whole_blocks if is_tested_elsewhere(lookup) else count
    return counting(lookup.unit, lookup.predicate, matching_keys)


def is_tested_elsewhere(lookup: Lookup) -> bool:
    """Return whether a tested column is not served by the index with the aggregates.

    Another index may serve the column, or none. `unit.parts[ANY_KEY]` belongs to the index with the partial aggregates;
    if the unit has no such part, the result is False.
    """
    parts = lookup.unit.parts
    if ANY_KEY not in parts:
        return False
    tested = (parts.get(column.lower()) for column in columns_of(lookup.predicate))
    return any(part is None or part.index != parts[ANY_KEY].index for part in tested)


def choose_indexes(
    definitions: Sequence[Definition], predicate: Predicate, keys: Sequence[str] = ()
) -> dict[str, Definition]:
    """Choose the index for each tested column and each grouping column.

    Return the indexes by lower-case column name; columns that no index serves are left out. A BITMAP index is preferred
    to indexes of other types, and an index with fewer columns to an index with more columns. `keys` are lower-case
    names of grouping columns, which only a BITMAP index serves unless they are also tested. If there are grouping
    columns, the first choice is an index with all grouping columns and all tested columns, which counts without
    bitmaps. The second choice is an index with all grouping columns.

    If the predicate is TRUE and there are no grouping columns, a single index is returned under the name ANY_KEY. Any
    of the indexes can be returned, because each index records the number of rows.
    """
    tested = {column.lower() for column in columns_of(predicate)}
    ordered = sorted(definitions, key=lambda d: (not d.has_bitmaps, len(d.columns), d.name))
    if predicate == TRUE and not keys:
        return {ANY_KEY: ordered[0]} if ordered else {}
    with_columns = [(d.lower_key_names, d) for d in ordered]
    chosen: dict[str, Definition] = {}
    for together in (tested.union(keys), set(keys)) if keys else ():
        covering = next((d for columns, d in with_columns if together <= columns and d.has_bitmaps), None)
        if covering is not None and not chosen:
            chosen = dict.fromkeys(together, covering)
    for columns, definition in with_columns:
        served = columns & (tested.union(keys) if definition.has_bitmaps else tested)
        chosen = {**dict.fromkeys(served, definition), **chosen}
    return chosen


def exact_where_covered(results: LookupResults, keys: Sequence[str]) -> LookupResults:
    """Return the results with the flag `exact` cleared for files that cannot be counted.

    `keys` are the grouping columns of a count. A file can be counted through indexes only if the chosen index of each
    grouping column covers the file and counts rows. Without grouping columns, the results are returned unchanged.
    """
    if not keys:
        return results
    updated = []
    for lookup, result in results.pairs():
        exact = result.exact.copy()
        for key in keys:
            part = lookup.unit.parts.get(key)
            exact &= lookup.unit.covered(part) if part is not None and part.counts else False
        updated.append(replace(result, exact=exact))
    return replace(results, results=tuple(updated))


def residual_predicates(
    predicate: Predicate, columns: Sequence[Column], values: pa.Table, matching_keys: MatchingKeys
) -> list[Predicate]:
    """Return the residual predicate of each partition.

    The residual has the values of the partition substituted in `predicate`. `columns` are the partition columns.
    `values` has a row of typed values for each partition, and a column for each partition column. A column with a value
    that could not be typed is missing; the leaves that test this column may match any partition. `matching_keys` has
    the keys for which the leaves that only Spark evaluates are TRUE. A partition with the residual Constant(False) or
    Constant(None) has no matching row.
    """
    names = {column.name.lower(): column.name for column in columns}
    leaves = [leaf for leaf in leaves_of(predicate) if not isinstance(leaf, (Unknown, Constant))]
    truths = {}
    for leaf in dict.fromkeys(leaves):
        name = names.get(leaf.column.lower())
        if name is None:
            continue
        unknown = name not in values.column_names or (isinstance(leaf, SparkLeaf) and leaf not in matching_keys)
        truths[leaf] = None if unknown else key_matches(leaf, values[name].combine_chunks(), matching_keys)
    if not truths:
        return [predicate] * values.num_rows
    rows: dict[tuple[bool | None, ...], Predicate] = {}
    result = []
    for row in range(values.num_rows):
        key = tuple(None if truth is None else bool(truth[row]) for truth in truths.values())
        if key not in rows:
            rows[key] = simplify(_substitute(predicate, dict(zip(truths, key, strict=True))))
        result.append(rows[key])
    return result


def _substitute(node: Predicate, truths: Mapping[Predicate, bool | None]) -> Predicate:
    match node:
        case And(children):
            return And(tuple(_substitute(child, truths) for child in children))
        case Or(children):
            return Or(tuple(_substitute(child, truths) for child in children))
        case _ if node in truths:
            truth, text = truths[node], node.text if isinstance(node, SparkLeaf) else str(node)
            return Unknown(text, "the partition values are left to Spark") if truth is None else Constant(truth)
        case _:
            return node


def look_up_files(
    table: TableFiles,
    predicates: Sequence[Predicate],
    chosen: Mapping[str, Definition],
    evaluate: Callable[[Sequence[Lookup]], Sequence[LookupResult]],
) -> LookupResults:
    """Look up the fresh files, and list the files to read whole.

    `evaluate` does the lookups, and returns a result for each lookup, in the same order. The other arguments are those
    of `find_lookups`.
    """
    candidates = find_lookups(table, predicates, chosen)
    return replace(candidates, results=tuple(evaluate(candidates.lookups)) if candidates.lookups else ())


def find_lookups(table: TableFiles, predicates: Sequence[Predicate], chosen: Mapping[str, Definition]) -> LookupResults:
    """Return the lookups of the fresh files, and the files to read whole.

    The lookups have no results yet. `predicates` has the residual predicate of each partition, `chosen` the indexes by
    lower-case column name.
    """
    matching = np.array([not isinstance(node, Constant) or node.value is True for node in predicates], bool)
    coverage = {d.name: table.records[d.name] for d in chosen.values() if d.name in table.records}
    selected = matching[table.partition_of]  # no row of the other partitions matches
    fresh = reduce(np.logical_or, (index.fresh for index in coverage.values()), np.zeros(len(selected), bool))
    whole = [_whole(table, coverage, number) for number in np.flatnonzero(selected & ~fresh).tolist()]
    units = _units(table, coverage, predicates, np.flatnonzero(selected & fresh))
    lookups = [_lookup(table, coverage, predicates, chosen, main, files) for main, files in units]
    gone = max((int(index.vanished[matching].sum()) for index in coverage.values()), default=0)
    return LookupResults(
        partitions=table.partitions,
        lookups=tuple(lookups),
        results=(),
        whole_files=tuple(whole),
        deleted=gone,
    )


def _whole(table: TableFiles, coverage: Mapping[str, FileRecords], number: int) -> WholeFile:
    """Return a file that must be read whole, with its state and the reason.

    `number` is the position of the file in `table.files`. `coverage` maps the name of each chosen index to its records
    of the files.
    """
    file, partition = table.files[number], int(table.partition_of[number])
    for index in coverage.values():
        if (state := index.state(number, file)) is not None:
            return WholeFile(partition, file, *state)
    why = "new since the last build" if coverage else "no index covers its partition"
    return WholeFile(partition, file, Freshness.UNINDEXED, why)


def _units(
    table: TableFiles, coverage: Mapping[str, FileRecords], predicates: Sequence[Predicate], files: Longs
) -> list[tuple[str, Longs]]:
    """Group fresh files that are looked up together.

    `files` has the positions of the fresh files in `table.files`. The indexes are ordered by the number of fresh files,
    most first. The main index of a file is the first index in which the file is fresh. The files of a group have the
    same main index, the same shard in the main index, and the same predicate. A file whose path is in several shards of
    an index is a group of its own. Return for each group the name of the main index and the positions of the files.
    """
    fresh = {name: int(index.fresh[files].sum()) for name, index in coverage.items()}
    by_most = sorted(coverage, key=lambda name: (-fresh[name], coverage[name].covered.shards.num_rows, name))
    described, shard = np.full(len(files), -1), np.full(len(files), -1)
    for place, name in enumerate(by_most):
        described_here = (described < 0) & coverage[name].fresh[files]
        described[described_here], shard[described_here] = place, coverage[name].shard[files][described_here]
    alone = reduce(np.logical_or, (index.shared[files] for index in coverage.values()), np.zeros(len(files), bool))
    numbers = {id(node): number for number, node in enumerate(predicates)}
    predicate = np.array([numbers[id(node)] for node in predicates], np.int64)[table.partition_of[files]]
    keys = np.stack([described, shard, predicate, np.where(alone, files, -1)], axis=1)
    _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    parts = np.split(files[order], np.cumsum(np.bincount(group, minlength=len(first)))[:-1]) if len(files) else []
    return [(by_most[described[first[at]]], parts[at]) for at in np.argsort(first, kind="stable").tolist()]


def _lookup(
    table: TableFiles,
    coverage: Mapping[str, FileRecords],
    predicates: Sequence[Predicate],
    chosen: Mapping[str, Definition],
    main: str,
    files: Longs,
) -> Lookup:
    covered = coverage[main].covered
    described = covered.files.select(LOOKED_UP).take(pa.array(coverage[main].row[files]))
    partitions = table.partition_of[files].tolist()
    deletes = [table.files[number].deletes for number in files.tolist()]
    unit = LookupUnit(
        paths=tuple(described["path"].to_pylist()),
        file=np.repeat(np.arange(len(files)), pc.list_value_length(described["offsets"]).to_numpy()),
        offset=_flat(described["offsets"]),
        length=_flat(described["lengths"]),
        rows=_flat(described["rows"]),
        parts={
            column: _part(definition, column, coverage[definition.name], files, counted=ANY_KEY in chosen)
            for column, definition in chosen.items()
            if definition.name in coverage
        },
    )
    return Lookup(
        partitions=tuple(partitions),
        numbers=files,
        unit=unit.by_file() if unit.has_whole_files else unit,
        predicate=predicates[partitions[0]],
        described=described.select(list(DESCRIBED)),
        spark_only=_spark_only(table, files, described),
        deletes=tuple(deletes) if any(deletes) else (),
    )


def _spark_only(table: TableFiles, files: Longs, described: pa.Table) -> tuple[frozenset[str], ...]:
    """Return for each file the columns that only Spark may read.

    The columns are given by names in lower case. `files` has the positions of the files in `table.files`. `described`
    has the rows of these files in the manifest of the main index. The columns are collected from all indexes that have
    the file with the same fingerprint.
    """
    columns: list[frozenset[str]] = [frozenset()] * len(files)
    for index in table.records.values():
        rows = index.row[files]
        concerned = np.flatnonzero(np.append(index.covered.has_spark_only, False)[rows])
        if not len(concerned):
            continue
        entries, main_entries = (
            index.covered.files.select((*FINGERPRINT, "indirect")).take(pa.array(rows[concerned])),
            described.take(pa.array(concerned)),
        )
        same = reduce(pc.and_, (pc.equal(entries[name], main_entries[name]) for name in FINGERPRINT)).to_pylist()
        for file, is_same, names in zip(concerned.tolist(), same, entries["indirect"].to_pylist(), strict=True):
            if is_same:
                columns[file] |= frozenset(name.lower() for name in names)
    return tuple(columns)


def _part(definition: Definition, column: str, indexed_files: FileRecords, files: Longs, *, counted: bool) -> IndexPart:
    """Return the part of an index that serves a column of these files.

    `files` has the positions of the files in the table. With `counted`, an AGGREGATE index counts rows; otherwise it
    selects blocks.
    """
    rows = indexed_files.shard[files]
    shards = indexed_files.covered.shards.take(pa.array(np.unique(rows[rows >= 0])))
    return IndexPart(
        index=definition.name,
        key=next(
            field
            for name, field in zip(definition.key_names, key_fields(definition), strict=True)
            if name.lower() == column or not column
        ),
        encoding=definition.bitmap_encoding or "",
        shards=tuple(zip(shards["shard"].to_pylist(), shards["size"].to_pylist(), strict=True)),
        files=np.flatnonzero(rows >= 0),
        entries=int(shards["rows"].to_numpy().sum()),
        in_files=counted and definition.counts_files,
    )


def _flat(lists: pa.ChunkedArray) -> Longs:
    combined = lists.combine_chunks()
    values: Longs = combined.flatten().to_numpy(zero_copy_only=False)
    return values


def look_up_all(
    lookups: Sequence[Lookup], matching_keys: MatchingKeys, before_each: Callable[[], None] = lambda: None
) -> list[LookupResult]:
    """Do lookups in this process.

    `matching_keys` has the keys for which the leaves that only Spark evaluates are TRUE. `before_each` is called before
    each lookup. Threads are used only if a shard is in a remote store, because threads slow down lookups in local
    shards.
    """

    def run(lookup: Lookup) -> LookupResult:
        before_each()
        return look_up(lookup, matching_keys)

    if all(is_local(path) for lookup in lookups for part in lookup.unit.parts.values() for path, _ in part.shards):
        return [run(lookup) for lookup in lookups]
    return map_parallel(run, lookups, REMOTE_READS)


def restrict(lookup: Lookup, files: Sequence[int]) -> Lookup:
    """Restrict a lookup to some of its files, given by positions in `unit.paths`."""
    chosen = np.array(files, np.int64)
    number = np.full(len(lookup.unit.paths), -1)
    number[chosen] = np.arange(len(chosen))
    blocks = number[lookup.unit.file] >= 0
    parts = {}
    for column, part in lookup.unit.parts.items():
        positions = number[part.files]
        parts[column] = replace(part, files=positions[positions >= 0])
    paths = tuple(lookup.unit.paths[file] for file in files)
    unit = LookupUnit(
        paths=paths,
        file=number[lookup.unit.file[blocks]],
        offset=lookup.unit.offset[blocks],
        length=lookup.unit.length[blocks],
        rows=lookup.unit.rows[blocks],
        parts=parts,
        deleted={path: lookup.unit.deleted[path] for path in paths if path in lookup.unit.deleted},
    )
    return Lookup(
        partitions=tuple(lookup.partitions[file] for file in files),
        numbers=lookup.numbers[chosen],
        unit=unit,
        predicate=lookup.predicate,
        described=lookup.described.take(pa.array(chosen)),
        spark_only=tuple(lookup.spark_only[file] for file in files),
        deletes=tuple(lookup.deletes[file] for file in files) if lookup.deletes else (),
    )
