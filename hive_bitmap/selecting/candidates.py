"""The files that a predicate may concern: looked up where an index knows them as they are now, else read whole.

Partitions are pruned first. The files of a partition that share a shard make one unit of lookup. Pure functions: values
in, values out, but for the shards that a lookup reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from hive_bitmap.columns import Column
from hive_bitmap.index.definition import Definition
from hive_bitmap.index.fingerprint import Fingerprint
from hive_bitmap.index.manifest import Manifest
from hive_bitmap.index.table_schema import key_fields
from hive_bitmap.parallel import each
from hive_bitmap.predicates.nodes import (
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
from hive_bitmap.selecting.key_matches import Answers, key_matches
from hive_bitmap.selecting.lookup_units import IndexPart, Longs, Unit
from hive_bitmap.selecting.select import LookupResult, count
from hive_bitmap.stores import FileStatus, is_local

REMOTE_READS = 16  # lookups at a time that wait for a network
FRESH, STALE, UNINDEXED = "fresh", "stale", "unindexed"


@dataclass(frozen=True)
class PartitionState:
    """A partition as it is now: its name (`a=1/b=x`, "" for none), its files, and manifests by the index."""

    name: str
    values: tuple[str | None, ...]
    files: tuple[FileStatus, ...]
    manifests: Mapping[str, Manifest]


@dataclass(frozen=True)
class Lookup:
    """Fresh files of one partition that are looked up together. The last three have an item for each file."""

    partition: int  # its number in `LookupResults.partitions`
    unit: Unit
    predicate: Predicate  # what is left of it when the values of the partition are put in
    fingerprints: tuple[Fingerprint, ...]
    indirect: tuple[frozenset[str], ...]  # columns, in lower case, of which Arrow may read other values than Spark
    schema_crc: tuple[int, ...]  # of the table's columns when the file was indexed, see `definition.schema_crc`


@dataclass(frozen=True)
class WholeFile:
    """A file that is read whole, for no index knows it as it is now."""

    partition: int  # its number in `LookupResults.partitions`
    status: FileStatus
    state: str  # STALE or UNINDEXED
    reason: str  # why it is not indexed; may be empty


@dataclass(frozen=True)
class LookupResults:
    """All files that a predicate may concern, before the strategy is chosen."""

    partitions: tuple[PartitionState, ...]
    lookups: tuple[Lookup, ...]
    found: tuple[LookupResult, ...]  # found[i] is that of lookups[i]
    whole: tuple[WholeFile, ...]
    deleted: int  # files that an index knows and that are gone


def look_up(lookup: Lookup, answers: Answers) -> LookupResult:
    """What planning keeps of a lookup: nothing that grows with the rows."""
    return count(lookup.unit, lookup.predicate, answers)


def choose_indexes(
    definitions: Sequence[Definition], predicate: Predicate, keys: Sequence[str] = ()
) -> dict[str, Definition]:
    """The index that serves each tested column, by lower-case name: BITMAP before COMPACT, fewest columns first.

    So for `keys` (lower-case names), which only BITMAP serves; one index of them all, and best of the tested columns
    too, goes before others, for it needs no bitmaps to count them. Where no column is tested, and there are no keys,
    the first index stands under the name "": it still knows how many rows there are.
    """
    wanted = {column.lower() for column in columns_of(predicate)}
    ordered = sorted(definitions, key=lambda d: (d.type != "BITMAP", len(d.columns), d.name))
    if predicate == TRUE and not keys:
        return {"": ordered[0]} if ordered else {}
    holding = [({column.lower() for column in d.column_names}, d) for d in ordered]
    chosen: dict[str, Definition] = {}
    for together in (wanted.union(keys), set(keys)) if keys else ():
        whole = next((d for columns, d in holding if together <= columns and d.type == "BITMAP"), None)
        if whole is not None and not chosen:
            chosen = dict.fromkeys(together, whole)
    for columns, definition in holding:
        served = columns & (wanted.union(keys) if definition.type == "BITMAP" else wanted)
        chosen = {**dict.fromkeys(served, definition), **chosen}
    return chosen


def knowing(work: LookupResults, keys: Sequence[str]) -> LookupResults:
    """The candidates, exact only in files that the indexes of these keys know."""
    if not keys:
        return work
    found = []
    for lookup, one in zip(work.lookups, work.found, strict=True):
        exact = one.exact.copy()
        for key in keys:
            part = lookup.unit.parts.get(key)
            exact &= lookup.unit.known(part) if part is not None else False
        found.append(replace(one, exact=exact))
    return replace(work, found=tuple(found))


def residuals(predicate: Predicate, columns: Sequence[Column], values: pa.Table, answers: Answers) -> list[Predicate]:
    """What is left of the predicate in each partition; `values` has a typed column for each partition column.

    A partition that is left with Constant(False) or Constant(None) holds no row that matches. Partition columns whose
    values could not be typed are left out of `values`: their leaves may match anything.
    """
    names = {column.name.lower(): column.name for column in columns}
    leaves = [leaf for leaf in leaves_of(predicate) if not isinstance(leaf, (Unknown, Constant))]
    truths = {}
    for leaf in dict.fromkeys(leaves):
        name = names.get(leaf.column.lower())
        if name is None:
            continue
        unknown = name not in values.column_names or (isinstance(leaf, SparkLeaf) and leaf not in answers)
        truths[leaf] = None if unknown else key_matches(leaf, values[name].combine_chunks(), answers)
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
    left: Sequence[Predicate],
    chosen: Mapping[str, Definition],
    evaluate: Callable[[Sequence[Lookup]], Sequence[LookupResult]],
) -> LookupResults:
    """Every file of the partitions that are left, looked up where an index knows it as it is now."""
    lookups: list[Lookup] = []
    whole: list[WholeFile] = []
    deleted = 0
    for number, (partition, predicate) in enumerate(zip(partitions, left, strict=True)):
        if isinstance(predicate, Constant) and predicate.value is not True:
            continue
        units, unknown, gone = _partition_units(number, partition, predicate, chosen)
        lookups += units
        whole += unknown
        deleted += gone
    found = list(evaluate(lookups)) if lookups else []
    return LookupResults(tuple(partitions), tuple(lookups), tuple(found), tuple(whole), deleted)


def _partition_units(
    number: int, partition: PartitionState, predicate: Predicate, chosen: Mapping[str, Definition]
) -> tuple[list[Lookup], list[WholeFile], int]:
    """The lookups of one partition, its files to be read whole, and how many indexed files are gone."""
    manifests = {d.name: partition.manifests[d.name] for d in chosen.values() if d.name in partition.manifests}
    fresh = {name: _fresh_files(partition.files, manifest) for name, manifest in manifests.items()}
    present = {file.path for file in partition.files}
    gone = max((sum(path not in present for path in m.row_of) for m in manifests.values()), default=0)
    whole = [
        WholeFile(number, file, *_why_whole(file, manifests))
        for position, file in enumerate(partition.files)
        if not any(position in rows for rows in fresh.values())
    ]
    if not manifests:
        return [], whole, gone
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
    """Position in `files` -> row of the manifest, of those that are indexed as they are now."""
    fresh = {}
    for position, file in enumerate(files):
        row = manifest.row_of.get(file.path)
        if row is not None and manifest.shard_of[row] is not None and manifest.fingerprints[row].matches(file):
            fresh[position] = row
    return fresh


def _why_whole(file: FileStatus, manifests: Mapping[str, Manifest]) -> tuple[str, str]:
    for manifest in manifests.values():
        row = manifest.row_of.get(file.path)
        if row is None:
            continue
        if manifest.shard_of[row] is None:
            return UNINDEXED, manifest.files["reason"][row].as_py()
        return STALE, "changed since it was indexed"
    return UNINDEXED, "new since the last build" if manifests else "no index covers its partition"


def _lookup(
    number: int,
    partition: PartitionState,
    predicate: Predicate,
    chosen: Mapping[str, Definition],
    manifests: Mapping[str, Manifest],
    fresh: Mapping[str, Mapping[int, int]],
    files: Sequence[int],
) -> Lookup:
    holders = [next(name for name in manifests if position in fresh[name]) for position in files]
    described = pa.concat_tables(
        manifests[name].files.slice(fresh[name][position], 1) for name, position in zip(holders, files, strict=True)
    )
    counts = [len(offsets) for offsets in described["offsets"]]
    unit = Unit(
        tuple(described["path"].to_pylist()),
        np.repeat(np.arange(len(files)), counts),
        _flat(described["offsets"]),
        _flat(described["lengths"]),
        _flat(described["rows"]),
        {
            column: _part(definition, column, manifests[definition.name], fresh[definition.name], files)
            for column, definition in chosen.items()
            if definition.name in manifests
        },
    )
    return Lookup(
        number,
        unit,
        predicate,
        tuple(
            manifests[name].fingerprints[fresh[name][position]] for name, position in zip(holders, files, strict=True)
        ),
        tuple(frozenset(name.lower() for name in names) for names in described["indirect"].to_pylist()),
        tuple(described["schema_crc"].to_pylist()),
    )


def _part(
    definition: Definition, column: str, manifest: Manifest, fresh: Mapping[int, int], files: Sequence[int]
) -> IndexPart:
    shards = dict.fromkeys(str(manifest.shard_of[fresh[position]]) for position in files if position in fresh)
    return IndexPart(
        definition.name,
        next(field for field in key_fields(definition) if field.name.lower() == column or not column),
        definition.encoding if definition.type == "BITMAP" else "",
        tuple((manifest.shard_path(name), manifest.sizes[name]) for name in shards),
        np.array([number for number, position in enumerate(files) if position in fresh], np.int64),
    )


def _flat(lists: pa.ChunkedArray) -> Longs:
    combined = lists.combine_chunks()
    values: Longs = combined.flatten().to_numpy(zero_copy_only=False)
    return values


def evaluate_here(answers: Answers) -> Callable[[Sequence[Lookup]], list[LookupResult]]:
    """The evaluation in this process; in threads where shards come over a network: near ones it would only slow."""

    def evaluate(lookups: Sequence[Lookup]) -> list[LookupResult]:
        if all(is_local(path) for lookup in lookups for part in lookup.unit.parts.values() for path, _ in part.shards):
            return [look_up(lookup, answers) for lookup in lookups]
        return each(lambda lookup: look_up(lookup, answers), lookups, REMOTE_READS)

    return evaluate


def restrict(lookup: Lookup, files: Sequence[int]) -> Lookup:
    """The same lookup for some of its files."""
    chosen = np.array(files, np.int64)
    number = np.full(len(lookup.unit.paths), -1)
    number[chosen] = np.arange(len(chosen))
    blocks = number[lookup.unit.file] >= 0
    parts = {}
    for column, part in lookup.unit.parts.items():
        kept = number[part.files]
        parts[column] = IndexPart(part.index, part.key, part.encoding, part.shards, kept[kept >= 0])
    unit = Unit(
        tuple(lookup.unit.paths[file] for file in files),
        number[lookup.unit.file[blocks]],
        lookup.unit.offset[blocks],
        lookup.unit.length[blocks],
        lookup.unit.rows[blocks],
        parts,
    )
    return Lookup(
        lookup.partition,
        unit,
        lookup.predicate,
        tuple(lookup.fingerprints[file] for file in files),
        tuple(lookup.indirect[file] for file in files),
        tuple(lookup.schema_crc[file] for file in files),
    )
