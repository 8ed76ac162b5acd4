"""Verifying: an index is compared with its base table, row by row, in a Spark job of a shard a task.

Files that are not as they were indexed are counted, for planning reads them whole; what an index says wrongly of a file
that it claims to know is a problem, and so is whatever a plain reader of the index table would see too much.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from hive_bitmap import stores
from hive_bitmap.building import staging
from hive_bitmap.errors import CorruptIndex, Unsupported
from hive_bitmap.formats.blocks import Blocks
from hive_bitmap.index import catalog, checksums, manifest
from hive_bitmap.index.catalog import Index
from hive_bitmap.index.definition import Definition, schema_crc
from hive_bitmap.index.manifest import Manifest
from hive_bitmap.index.shard import cardinalities_path
from hive_bitmap.metastore import metastore, serde
from hive_bitmap.metastore.base_files import Source, sources
from hive_bitmap.metastore.file_listing import format_of, is_visible
from hive_bitmap.metastore.table_info import Table
from hive_bitmap.stores import FileStatus
from hive_bitmap.tasks.distribution import in_tasks
from hive_bitmap.verifying.audit import ShardAudit, ShardItem, audit_shard
from hive_bitmap.verifying.known_file import KnownFile
from hive_bitmap.verifying.problems import Problems
from hive_bitmap.verifying.stored_shard import StoredShard

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Verification:
    """What the comparison of one index with its base table found.

    `shards`, `files`, `blocks` and `rows` (of the base table) were compared. `stale` files changed since they were
    indexed, `unindexed` ones are not known, `gone` ones are no more: no errors, planning reads the files whole.
    `problems` tells the first 20 of `problem_count` in words.
    """

    definition: Definition
    shards: int
    files: int
    blocks: int
    rows: int
    stale: int
    unindexed: int
    gone: int
    problems: tuple[str, ...]
    problem_count: int

    @property
    def ok(self) -> bool:
        """Whether all that the index says of files as they are now is right."""
        return self.problem_count == 0


@dataclass
class _Tally:
    """What the driver finds of one index before any shard is read."""

    index: Index
    items: list[ShardItem] = field(default_factory=list)
    stale: int = 0
    unindexed: int = 0
    gone: int = 0
    problems: Problems = field(default_factory=Problems)


def verify(spark: SparkSession, table: str, names: Sequence[str] = ()) -> list[Verification]:
    """Compare the indexes of a table, all or those named, with the table; one result an index, by name.

    Every block of every file that is as it was indexed is read and compared with all its stored rows. A missing or
    damaged shard or manifest is a problem in the result. Raises NotFound for an unknown table or index.
    """
    manifest.read.cache_clear()  # what was damaged after this process had read it would go unseen
    checksums.of_generation.cache_clear()
    base, indexes = catalog.table_and_indexes(spark, table)
    chosen = [catalog.named(base, indexes, name) for name in sorted({name.lower() for name in names})] or indexes
    found = sources(spark, base) if chosen else []
    tallies = [_tally(spark, base, number, index, found) for number, index in enumerate(chosen)]
    items = [item for tally in tallies for item in tally.items]
    audits: list[ShardAudit] = []
    if items:
        with staging.in_scratch(spark, base, found, [index.definition for index in chosen]) as staged:
            staged_items = [replace(item, staging=staged) for item in items]
            audits = in_tasks(spark, staged_items, audit_shard)
    return [_result(tally, [a for a in audits if a.index == number]) for number, tally in enumerate(tallies)]


def _result(tally: _Tally, audits: Sequence[ShardAudit]) -> Verification:
    problems = tally.problems
    for audit in audits:
        problems.add_all(audit.problems)
    return Verification(
        tally.index.definition,
        len(audits),
        sum(audit.files for audit in audits),
        sum(audit.blocks for audit in audits),
        sum(audit.rows for audit in audits),
        tally.stale + sum(audit.stale for audit in audits),
        tally.unindexed,
        tally.gone,
        tuple(problems.told),
        problems.count,
    )


def _tally(spark: SparkSession, base: Table, number: int, index: Index, now: Sequence[Source]) -> _Tally:
    """Compare what the manifests say with what the base table's folders hold."""
    tally = _Tally(index)
    folders = catalog.states(spark, index)
    found = {source.values: source.files for source in now}
    try:
        catalog.require_same_table(base, index)
    except Unsupported as e:  # planning leaves such an index alone
        tally.problems.add(str(e))
        tally.unindexed = sum(len(files) for files in found.values())
        return tally
    zone = metastore.time_zone(spark)
    crc = schema_crc(base.columns, zone, serde.reading(base))
    for values in [*found, *(values for values in folders if values not in found)]:
        files = found.get(values, ())
        try:
            held = manifest.read(folders[values]) if values in folders else None
        except CorruptIndex as e:
            tally.problems.add(str(e))
            held = None
        if held is None:
            tally.unindexed += len(files)
            continue
        _count(tally, held, files, crc if serde.reading(base) else None)
        _check_manifest(tally.problems, held)
        listed = {file.path: file for file in files}
        shards = range(held.shards.num_rows)
        tally.items += [_item(base, number, index.definition, held, row, listed, zone) for row in shards]
    return tally


def _count(tally: _Tally, held: Manifest, files: Sequence[FileStatus], crc: int | None) -> None:
    """Where a `crc` is given, files that were indexed under another hold other keys now."""
    crcs = held.files["schema_crc"].to_pylist()
    present = {file.path: held.row_of.get(file.path) for file in files}
    tally.gone += sum(path not in present for path in held.row_of)
    for file in files:
        row = present[file.path]
        if row is None or held.shard_of[row] is None:
            tally.unindexed += 1
        elif not held.fingerprints[row].matches(file) or crc not in (None, crcs[row]):
            tally.stale += 1


def _check_manifest(problems: Problems, held: Manifest) -> None:
    """The manifest in itself, and against the files that a plain reader of the index table would read."""
    for what, names in (("file", held.files["path"]), ("shard", held.shards["shard"])):
        for name, times in Counter(names.to_pylist()).items():
            if times > 1:
                problems.add(f"manifest of {held.folder} lists {what} {name} {times} times")
    for name in sorted({shard for shard in held.shard_of if shard is not None} - set(held.sizes)):
        problems.add(f"manifest of {held.folder} says that shard {name} covers files, but does not list it")
    for name in sorted(set(checksums.read(held.folder)) - _summed(held)):
        problems.add(f"the checksums of {held.folder} are of a file that the manifest does not name: {name}")
    _check_lines(problems, held)
    for file in stores.listing(held.folder).files:
        name = _name(file.path)
        if is_visible(name) and name not in held.sizes:
            problems.add(f"{file.path} is not in the manifest, but readers of the index table see its rows")


def _check_lines(problems: Problems, held: Manifest) -> None:
    """The manifest's copy for those who cannot read Parquet; generations of old have none."""
    sums = checksums.read(held.folder).get(manifest.LINES)
    if sums is None:
        return
    path = f"{held.folder}/{checksums.FOLDER}/{manifest.LINES}"
    try:
        with stores.open_input(path) as source:
            checksums.require(source.read_buffer(), sums)
    except OSError as e:
        problems.add(f"manifest {path} cannot be read: {e}")


def _summed(held: Manifest) -> set[str]:
    """The names of the files that checksums stand over."""
    beside = {_name(cardinalities_path(held.shard_path(shard))) for shard in held.sizes}
    return {"files.parquet", "shards.parquet", manifest.LINES, *held.sizes, *beside}


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _item(
    base: Table, number: int, definition: Definition, held: Manifest, row: int, listed: dict[str, FileStatus], zone: str
) -> ShardItem:
    reading = serde.reading(base)
    crc = schema_crc(base.columns, zone, reading)
    listing = held.shards.slice(row, 1).to_pylist()[0]
    covered = pc.equal(held.files["shard"], listing["shard"]).fill_null(False)
    files = []
    for at in np.flatnonzero(covered.to_numpy(zero_copy_only=False)):
        known = held.files.slice(at, 1).to_pylist()[0]
        now = listed.get(known["path"])
        files.append(
            KnownFile(
                held.fingerprints[at],
                Blocks(*(np.array(known[name], np.int64) for name in ("offsets", "lengths", "rows", "starts"))),
                frozenset(known["indirect"]) if known["schema_crc"] == crc else None,
                now is not None and held.fingerprints[at].matches(now) and (not reading or known["schema_crc"] == crc),
            )
        )
    path, sums = held.shard_path(listing["shard"]), checksums.read(held.folder)
    stored = StoredShard(
        definition,
        path,
        listing["size"],
        listing["rows"],
        listing["cardinality_size"],
        sums.get(listing["shard"]),
        sums.get(_name(cardinalities_path(path))),
    )
    return ShardItem(number, stored, tuple(files), format_of(base), base.columns, zone)
