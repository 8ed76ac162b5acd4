"""The files that a predicate may concern: those that an index knows as they are now are looked up, others read whole.

Partitions are pruned first. The files of a partition that share a shard are looked up together, as one unit. The
functions are pure, but for the shards that a lookup reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.fingerprint import Fingerprint
from hive_bitmap.core.index.manifest import Freshness, Manifest
from hive_bitmap.core.index.table_schema import key_fields
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
from hive_bitmap.core.selecting.known_results import known_result, text_of
from hive_bitmap.core.selecting.lookup_units import IndexPart, Longs, LookupUnit
from hive_bitmap.core.selecting.select import LookupResult, count
from hive_bitmap.core.stores import WITH_DELETES, FileStatus, is_local

ROWS_DELETED = "some of its rows are deleted"
REMOTE_READS = 16  # concurrent lookups in shards that are read over a network


@dataclass(frozen=True, kw_only=True)
class PartitionState:
    """A partition as it is now; a table that is not partitioned has one, without name and values."""

    name: str  # `a=1/b=x`
    values: tuple[str | None, ...]  # of the partition columns
    files: tuple[FileStatus, ...]
    manifests: Mapping[str, Manifest]  # by the name of the index
    number: int = 0  # its place among the partitions that Spark listed, of which some may be pruned


@dataclass(frozen=True, kw_only=True)
class Lookup:
    """Fresh files of one partition that are looked up together. The last five fields have an item for each file.

    `deletes` are what `FileStatus.deletes` is of each file; empty if no row of any is deleted.
    """

    partition: int  # its position in `LookupResults.partitions`
    unit: LookupUnit
    predicate: Predicate  # the residual predicate once the partition's values are substituted
    fingerprints: tuple[Fingerprint, ...]
    spark_only: tuple[frozenset[str], ...]  # lower-case names of columns that Arrow may read differently from Spark
    schema_crc: tuple[int, ...]  # of the table's columns when the file was indexed, see `definition.schema_crc`
    foreign: tuple[frozenset[str] | None, ...]  # lower-case names in the file that were no columns then; None: unknown
    deletes: tuple[str, ...] = ()


@dataclass(frozen=True)
class WholeFile:
    """A file that is read whole, because no index knows it as it is now."""

    partition: int  # its position in `LookupResults.partitions`
    status: FileStatus
    freshness: Freshness  # STALE or UNINDEXED
    reason: str  # why no index can be used for it; may be empty


@dataclass(frozen=True, kw_only=True)
class LookupResults:
    """All files that a predicate may concern, before a strategy is chosen."""

    partitions: tuple[PartitionState, ...]
    lookups: tuple[Lookup, ...]
    results: tuple[LookupResult, ...]  # results[i] is the result of lookups[i]
    whole_files: tuple[WholeFile, ...]
    deleted: int  # how many indexed files no longer exist
    matching_keys: MatchingKeys = field(default_factory=dict)  # the keys for which Spark's leaves are TRUE

    def pairs(self) -> Iterator[tuple[Lookup, LookupResult]]:
        """Yield each lookup with its result."""
        return zip(self.lookups, self.results, strict=True)


def look_up(lookup: Lookup, matching_keys: MatchingKeys, texts: Mapping[int, str | None] | None = None) -> LookupResult:
    """Look up the files of one lookup; the size of the result does not depend on the number of rows.

    `texts` has the `text_of` predicates, by their ids: long ones are made once for many lookups.
    """
    unit, predicate = lookup.unit, lookup.predicate
    text = text_of(predicate) if texts is None else texts[id(predicate)]
    return known_result(unit, text, lambda: count(unit, predicate, matching_keys))


def choose_indexes(
    definitions: Sequence[Definition], predicate: Predicate, keys: Sequence[str] = ()
) -> dict[str, Definition]:
    """Choose the index for each tested column and each grouping key; the result is by lower-case column name.

    A BITMAP index goes before a COMPACT one, and an index of fewer columns before one of more. `keys` are lower-case
    names of grouping keys, which only a BITMAP index serves. An index that has all keys, and best the tested columns as
    well, goes before all others, because it counts them without bitmaps. If there are neither tested columns nor keys,
    the first index is returned under the name "": it still knows the number of rows.
    """
    wanted = {column.lower() for column in columns_of(predicate)}
    ordered = sorted(definitions, key=lambda d: (not d.has_bitmaps, len(d.columns), d.name))
    if predicate == TRUE and not keys:
        return {"": ordered[0]} if ordered else {}
    with_columns = [({column.lower() for column in d.column_names}, d) for d in ordered]
    chosen: dict[str, Definition] = {}
    for together in (wanted.union(keys), set(keys)) if keys else ():
        covering = next((d for columns, d in with_columns if together <= columns and d.has_bitmaps), None)
        if covering is not None and not chosen:
            chosen = dict.fromkeys(together, covering)
    for columns, definition in with_columns:
        served = columns & (wanted.union(keys) if definition.has_bitmaps else wanted)
        chosen = {**dict.fromkeys(served, definition), **chosen}
    return chosen


def exact_where_known(results: LookupResults, keys: Sequence[str]) -> LookupResults:
    """Return the results with `exact` cleared for the files that the indexes of these keys do not know."""
    if not keys:
        return results
    found = []
    for lookup, one in results.pairs():
        exact = one.exact.copy()
        for key in keys:
            part = lookup.unit.parts.get(key)
            exact &= lookup.unit.known(part) if part is not None else False
        found.append(replace(one, exact=exact))
    return replace(results, results=tuple(found))


def residual_predicates(
    predicate: Predicate, columns: Sequence[Column], values: pa.Table, matching_keys: MatchingKeys
) -> list[Predicate]:
    """Return the residual predicate of each partition: the predicate with the partition's values substituted.

    `values` has a row for each partition and a column, typed as in the table, for each partition column; columns whose
    values could not be typed are left out, and their leaves may match any partition. A partition whose residual is
    Constant(False) or Constant(None) has no matching row.
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
    partitions: Sequence[PartitionState],
    predicates: Sequence[Predicate],
    chosen: Mapping[str, Definition],
    evaluate: Callable[[Sequence[Lookup]], Sequence[LookupResult]],
) -> LookupResults:
    """Look up the files that an index knows as they are now, and list those that have to be read whole.

    `predicates` are the residual predicates of the partitions, `chosen` the indexes by lower-case column name, and
    `evaluate` does the lookups, with a result for each of them in their order.
    """
    lookups: list[Lookup] = []
    whole: list[WholeFile] = []
    deleted = 0
    for number, (partition, predicate) in enumerate(zip(partitions, predicates, strict=True)):
        if isinstance(predicate, Constant) and predicate.value is not True:
            continue  # no row of the partition matches
        partition_lookups, unknown, gone = _partition_lookups(number, partition, predicate, chosen)
        lookups += partition_lookups
        whole += unknown
        deleted += gone
    found = list(evaluate(lookups)) if lookups else []
    return LookupResults(
        partitions=tuple(partitions),
        lookups=tuple(lookups),
        results=tuple(found),
        whole_files=tuple(whole),
        deleted=deleted,
    )


def _partition_lookups(
    number: int, partition: PartitionState, predicate: Predicate, chosen: Mapping[str, Definition]
) -> tuple[list[Lookup], list[WholeFile], int]:
    """Return the lookups of one partition, its files to be read whole, and how many indexed files no longer exist."""
    manifests = {d.name: partition.manifests[d.name] for d in chosen.values() if d.name in partition.manifests}
    fresh = {name: _fresh_files(partition.files, manifest) for name, manifest in manifests.items()}
    gone = max((manifest.gone(partition.files) for manifest in manifests.values()), default=0)
    whole = [
        WholeFile(number, file, *_why_whole(file, manifests))
        for position, file in enumerate(partition.files)
        if not any(position in rows for rows in fresh.values())
    ]
    if not manifests:
        return [], whole, gone
    # Files are grouped by the shards of the index that knows most of them.
    main = min(
        manifests, key=lambda name: (len(partition.files) - len(fresh[name]), manifests[name].shards.num_rows, name)
    )
    groups: dict[str | None, list[int]] = {}
    for position in range(len(partition.files)):
        if position in fresh[main]:
            groups.setdefault(manifests[main].shard_of[fresh[main][position]], []).append(position)
        elif any(position in rows for rows in fresh.values()):
            groups.setdefault(None, []).append(position)
    lookups = [_lookup(number, partition, predicate, chosen, manifests, fresh, files) for files in groups.values()]
    return lookups, whole, gone


def _fresh_files(files: Sequence[FileStatus], manifest: Manifest) -> dict[int, int]:
    """Map the position in `files` of each file that is indexed as it is now to its row in the manifest."""
    return {
        position: manifest.row_of[file.path]
        for position, file in enumerate(files)
        if manifest.freshness(file, None) is Freshness.FRESH
    }


def _why_whole(file: FileStatus, manifests: Mapping[str, Manifest]) -> tuple[Freshness, str]:
    """Return the state of a file that is fresh in none of the manifests, and the reason."""
    for manifest in manifests.values():
        row = manifest.row_of.get(file.path)
        if row is not None:
            freshness = manifest.freshness(file, None)
            stale = freshness is Freshness.STALE
            if file.etag == WITH_DELETES:
                return freshness, ROWS_DELETED
            return freshness, "changed since it was indexed" if stale else manifest.files["reason"][row].as_py()
    return Freshness.UNINDEXED, "new since the last build" if manifests else "no index covers its partition"


def _lookup(
    number: int,
    partition: PartitionState,
    predicate: Predicate,
    chosen: Mapping[str, Definition],
    manifests: Mapping[str, Manifest],
    fresh: Mapping[str, Mapping[int, int]],
    files: Sequence[int],
) -> Lookup:
    known_by = [next(name for name in manifests if position in fresh[name]) for position in files]
    described = pa.concat_tables(
        manifests[name].files.slice(fresh[name][position], 1) for name, position in zip(known_by, files, strict=True)
    )
    counts = [len(offsets) for offsets in described["offsets"]]
    deletes = [partition.files[position].deletes for position in files]
    unit = LookupUnit(
        paths=tuple(described["path"].to_pylist()),
        file=np.repeat(np.arange(len(files)), counts),
        offset=_flat(described["offsets"]),
        length=_flat(described["lengths"]),
        rows=_flat(described["rows"]),
        parts={
            column: _part(definition, column, manifests[definition.name], fresh[definition.name], files)
            for column, definition in chosen.items()
            if definition.name in manifests
        },
    )
    return Lookup(
        partition=number,
        unit=unit,
        predicate=predicate,
        fingerprints=tuple(
            manifests[name].fingerprints[fresh[name][position]] for name, position in zip(known_by, files, strict=True)
        ),
        spark_only=tuple(
            _spark_only(partition.manifests, manifests[name].fingerprints[fresh[name][position]])
            for name, position in zip(known_by, files, strict=True)
        ),
        schema_crc=tuple(described["schema_crc"].to_pylist()),
        foreign=tuple(None if names is None else frozenset(names) for names in described["foreign"].to_pylist()),
        deletes=tuple(deletes) if any(deletes) else (),
    )


def _spark_only(manifests: Mapping[str, Manifest], file: Fingerprint) -> frozenset[str]:
    """Return the columns that only Spark may read of a file, in lower case, by all manifests that know it as it is."""
    columns: frozenset[str] = frozenset()
    for manifest in manifests.values():
        some = manifest.spark_only.get(file.path)
        if some and manifest.fingerprints[manifest.row_of[file.path]] == file:
            columns |= some
    return columns


def _part(
    definition: Definition, column: str, manifest: Manifest, fresh: Mapping[int, int], files: Sequence[int]
) -> IndexPart:
    shards = dict.fromkeys(str(manifest.shard_of[fresh[position]]) for position in files if position in fresh)
    return IndexPart(
        index=definition.name,
        key=next(field for field in key_fields(definition) if field.name.lower() == column or not column),
        encoding=definition.encoding if definition.has_bitmaps else "",
        shards=tuple((manifest.shard_path(name), manifest.sizes[name]) for name in shards),
        files=np.array([number for number, position in enumerate(files) if position in fresh], np.int64),
        entries=sum(manifest.entries[name] for name in shards),
    )


def _flat(lists: pa.ChunkedArray) -> Longs:
    combined = lists.combine_chunks()
    values: Longs = combined.flatten().to_numpy(zero_copy_only=False)
    return values


def evaluate_here(matching_keys: MatchingKeys) -> Callable[[Sequence[Lookup]], list[LookupResult]]:
    """Return a function that does lookups in this process, in threads if a shard is read over a network.

    Threads would only slow down lookups in local shards.
    """

    def evaluate(lookups: Sequence[Lookup]) -> list[LookupResult]:
        predicates = {id(lookup.predicate): lookup.predicate for lookup in lookups}
        texts = {place: text_of(predicate) for place, predicate in predicates.items()}
        if all(is_local(path) for lookup in lookups for part in lookup.unit.parts.values() for path, _ in part.shards):
            return [look_up(lookup, matching_keys, texts) for lookup in lookups]
        return map_parallel(lambda lookup: look_up(lookup, matching_keys, texts), lookups, REMOTE_READS)

    return evaluate


def restrict(lookup: Lookup, files: Sequence[int]) -> Lookup:
    """Return the lookup of some of its files, given by their positions in `unit.paths`."""
    chosen = np.array(files, np.int64)
    number = np.full(len(lookup.unit.paths), -1)
    number[chosen] = np.arange(len(chosen))
    blocks = number[lookup.unit.file] >= 0
    parts = {}
    for column, part in lookup.unit.parts.items():
        kept = number[part.files]
        parts[column] = replace(part, files=kept[kept >= 0])
    kept_paths = tuple(lookup.unit.paths[file] for file in files)
    unit = LookupUnit(
        paths=kept_paths,
        file=number[lookup.unit.file[blocks]],
        offset=lookup.unit.offset[blocks],
        length=lookup.unit.length[blocks],
        rows=lookup.unit.rows[blocks],
        parts=parts,
        deleted={path: lookup.unit.deleted[path] for path in kept_paths if path in lookup.unit.deleted},
    )
    return Lookup(
        partition=lookup.partition,
        unit=unit,
        predicate=lookup.predicate,
        fingerprints=tuple(lookup.fingerprints[file] for file in files),
        spark_only=tuple(lookup.spark_only[file] for file in files),
        schema_crc=tuple(lookup.schema_crc[file] for file in files),
        foreign=tuple(lookup.foreign[file] for file in files),
        deletes=tuple(lookup.deletes[file] for file in files) if lookup.deletes else (),
    )
