"""Plan what a build does with the segments of an index.

The plan says which segments stay, which segments are replaced, and what the new segments hold. All functions are pure.
A base file is not read again if a segment covers the file in its listed state. Then the index rows of the file are
kept. If the file could not be indexed, the recorded reason is kept, because the same bytes would give the same result.
Every other file is read.

Index rows are removed at once if SQL queries of the index table would count them twice: the rows of changed files, and
the rows of files that a segment with an older name covers too. Rows of deleted files stay for a while, because most
tables lose old files every day.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.index import generation_names
from hive_bitmap.core.index.manifest import ALL, CHANGED, COLUMNS_CHANGED, DAMAGED, NEW
from hive_bitmap.core.index.shard import ROW_BYTES, cardinalities_path
from hive_bitmap.core.segments import merging
from hive_bitmap.core.segments.covered import Covered, Flags, Listing, Longs
from hive_bitmap.core.segments.merging import Sized
from hive_bitmap.core.table_info import Values

Doubles = npt.NDArray[np.float64]
DEAD_SHARE = 0.2  # a segment is replaced if this share of its rows belongs to deleted files
DEAD_SECONDS = 24 * 3600.0  # a segment of this age is replaced if any of its rows belongs to a deleted file
SEGMENT_BASE_BYTES = 8 << 30  # most bytes of base files of a new segment: some 200 MB of index
USUAL_RATIO = 0.03  # assumed size of an index, divided by the size of its base files, before the first build
COMPRESSION = 4  # rough size of bitmaps in memory, divided by the size of their shard on disk
MANY_SHARDS = 16  # most small shards of a segment that are left unmerged; a lookup opens each of them


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The rules of a plan.

    `schemas` are the `definition.valid_schemas` of the table; None means that all checksums are valid. `schema_crc` is
    the checksum of the table's current columns. A shard covers about `shard_bytes` of base files, and takes at most
    `shard_memory` bytes. `now` is the time in seconds since 1970. With `full`, nothing is kept; with `compact`, all
    small segments and shards are merged; with `remove_dead`, rows of deleted files are removed at once. With
    `take_over`, all segments are replaced. With `rewrite`, all shards are rewritten, because the base files that their
    rows name have moved.
    """

    schemas: Collection[int] | None
    schema_crc: int
    shard_bytes: int
    shard_memory: int
    now: float
    full: bool = False
    compact: bool = False
    remove_dead: bool = False
    take_over: bool = False
    rewrite: bool = False


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The partitions that a build looks at; all partitions if `partitions` is None.

    The index must not cover the partitions `excluded`. `removed` has the paths of files that were removed from the
    table's log, but whose index rows are kept (`keep_removed`).
    """

    partitions: frozenset[Values] | None = None
    excluded: frozenset[Values] = frozenset()
    removed: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class NewSegment:
    """A segment to write.

    The new segment replaces the segments with the folders `replaced`. `files` has the manifest rows that the new
    segment takes over (schema FILES, with paths of shards). `read` has the positions in the listing of the files to
    index, and `why` the reason for reading each file. The shards with the paths `linked` are kept unchanged. Each item
    of `rewritten` has the paths of shards that become one new shard.
    """

    replaced: tuple[str, ...]
    files: pa.Table
    read: tuple[int, ...]
    why: tuple[str, ...]
    linked: tuple[str, ...]
    rewritten: tuple[tuple[str, ...], ...]

    def rows_of(self, shards: Collection[str]) -> pa.Table:
        """Return the rows of `files` whose shard is one of these shards."""
        return self.files.filter(pc.is_in(self.files["shard"], value_set=pa.array(shards, pa.string())))

    @property
    def untouched(self) -> pa.Table:
        """The rows of `files` that go into the new manifest unchanged.

        The base files of these rows are in linked shards, or not indexed.
        """
        rewritten = pa.array(chain.from_iterable(self.rewritten), pa.string())
        return self.files.filter(pc.invert(pc.is_in(self.files["shard"], value_set=rewritten)))


@dataclass(frozen=True)
class SegmentPlan:
    """The segments to write (`new`), and the folders of the segments to remove (`gone`).

    A segment is removed if a new segment replaces it, or if none of its rows is kept.
    """

    new: tuple[NewSegment, ...]
    gone: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        return not self.new and not self.gone

    @property
    def read(self) -> tuple[int, ...]:
        return tuple(chain.from_iterable(segment.read for segment in self.new))


@dataclass(frozen=True)
class Judged:
    """The decision on each manifest row of the segments, and on each listed file.

    `kept` flags the manifest rows to keep. `gone` flags the rows of deleted files, which stay until their segment is
    replaced. A row with neither flag is removed at once. `row` has the position of the manifest row that covers each
    listed file; -1 for a file to read. `why` has the reason for reading a file, by the position of the file in the
    listing.
    """

    kept: Flags
    gone: Flags
    row: Longs
    why: Mapping[int, str]


def judge(covered: Covered, listing: Listing, scope: Scope, rules: Rules, present: Mapping[str, int]) -> Judged:
    """Compare the segments of an index with a listing of the partitions in scope.

    `covered` has the manifest rows of the segments. `present` maps the paths of all files in the segments' folders to
    their sizes.
    """
    in_scope = np.array([scope.partitions is None or values in scope.partitions for values in covered.partitions], bool)
    excluded = np.array([values in scope.excluded for values in covered.partitions], bool)
    kept = ~in_scope[covered.partition]
    gone = ~kept & ~excluded[covered.partition]
    usable, intact = _usable(covered, rules), _intact_rows(covered, present)
    row = np.full(len(listing.files), -1)
    reasons: dict[int, str] = {}
    numbers = np.array([covered.numbers.get(values, -1) for values in listing.partitions], np.int64)
    for rows in covered.candidates(listing, numbers):
        has_row = rows >= 0
        gone[rows[has_row]] = False
        if rules.full or not has_row.any():
            continue
        same = covered.matches(listing, rows)
        is_usable = same & usable[rows] & intact[rows] & (row < 0)
        row[is_usable] = rows[is_usable]
        for number in np.flatnonzero(has_row & (row < 0)).tolist():
            reasons.setdefault(number, _why(same[number], usable[rows[number]]))
    kept[row[row >= 0]] = True
    removed = gone & _removed(covered, frozenset() if rules.full else scope.removed)
    kept, gone = kept | removed, gone & ~removed
    repeats = covered.after_another(kept | gone)
    unread = ALL if rules.full else NEW
    why = {number: reasons.get(number, unread) for number in np.flatnonzero(row < 0).tolist()}
    return Judged(kept & ~repeats, gone & ~repeats, row, why)


def _why(same: bool, usable: bool) -> str:
    if not same:
        return CHANGED
    return DAMAGED if usable else COLUMNS_CHANGED


def _usable(covered: Covered, rules: Rules) -> Flags:
    """Return for each manifest row whether it is valid for the table's current columns.

    If a file could not be indexed, its row is valid only if the columns have not changed since the build.
    """
    current = covered.files["schema_crc"].to_numpy() == rules.schema_crc
    return current | (covered.valid(rules.schemas) & (covered.shard_of >= 0))


def _intact_rows(covered: Covered, present: Mapping[str, int]) -> Flags:
    """Return for each manifest row whether its shard is intact.

    The shard and its cardinalities must exist with their recorded sizes.
    """
    names, sizes, expected_sizes = (covered.shards[name].to_pylist() for name in ("shard", "size", "cardinality_size"))
    intact = np.array(
        [
            present.get(path) == size and (not expected or present.get(cardinalities_path(path)) == expected)
            for path, size, expected in zip(names, sizes, expected_sizes, strict=True)
        ],
        bool,
    )
    unindexed = pc.is_null(covered.files["shard"]).to_numpy()
    shard_of = covered.shard_of
    return unindexed | ((shard_of >= 0) & np.append(intact, False)[shard_of])


def _removed(covered: Covered, removed: frozenset[str]) -> Flags:
    if not removed:
        return np.zeros(covered.files.num_rows, bool)
    flags: Flags = pc.is_in(covered.files["path"], value_set=pa.array(sorted(removed))).to_numpy().astype(bool)
    return flags & (covered.shard_of >= 0)


def plan(
    covered: Covered,
    judged: Judged,
    listing: Listing,
    rules: Rules,
    present: Mapping[str, int],
    readers_of: Callable[[Sequence[str]], Sequence[Hashable]],
    readers: Mapping[int, Hashable],
    is_foreign: Callable[[str], bool] = lambda path: False,
) -> SegmentPlan:
    """Plan the segments of an index after a build.

    `judged` has the decisions on manifest rows and files. Segments are merged only if the same users may read them:
    `readers_of` takes the folders of segments and returns for each a value that stands for these users. `readers` has
    such a value for each file to index, by the position of the file in the listing. `present` maps the paths of all
    files in the segments' folders to their sizes. `is_foreign` takes the path of a file that is not a shard, and
    returns whether SQL queries of the index table would read it as a shard.
    """
    facts = _Facts.of(covered, judged, listing)
    touched = _touched(covered, judged, rules, facts, present, is_foreign)
    folders = covered.segments
    parts = [_Part(segment=number) for number in np.flatnonzero(facts.kept_files).tolist()]
    parts += [_Part(read=read) for read in _new_parts(listing, judged, readers)]
    groups = _merged(parts, facts, rules, folders, readers_of, readers)
    alone = set(range(len(parts))) - set(chain.from_iterable(groups))
    groups += [[at] for at in sorted(alone) if parts[at].read or parts[at].segment in touched]
    new = tuple(_assembled(covered, judged, rules, [parts[at] for at in group]) for group in groups)
    replaced = set(chain.from_iterable(segment.replaced for segment in new))
    replaced |= {folders[number] for number in touched if not facts.kept_files[number]}
    return SegmentPlan(new, tuple(folder for folder in folders if folder in replaced))


@dataclass(frozen=True)
class _Part:
    """A part of a new segment.

    A part has the kept files of an old segment, or files to index. `segment` is the position of the old segment in
    `Covered.segments`; -1 for files to index. `read` has the positions in the listing of the files to index; it is
    empty for an old segment.
    """

    segment: int = -1
    read: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Facts:
    """Numbers of files, rows and bytes of the segments of an index.

    Arrays have an item for each segment. The counted files and rows are base files and their rows, "kept" or "gone" as
    in `Judged`. The manifest rows of dead files are removed at once. `bytes` is the size of the segment's shards and
    cardinalities. `listing` has the listed base files.
    """

    kept_rows: Longs  # of base files
    kept_files: Longs
    dead_files: Longs
    gone_files: Longs
    gone_rows: Longs
    bytes: Longs
    places: Doubles  # the mean of the partition numbers of the segment's files
    ratio: float  # bytes of the index divided by bytes of base files
    listing: Listing = field(repr=False)

    @classmethod
    def of(cls, covered: Covered, judged: Judged, listing: Listing) -> _Facts:
        count = len(covered.segments)

        def per_segment(weights: Longs | Flags) -> Longs:
            return np.bincount(covered.segment, weights, count).astype(np.int64)

        rows, dead = covered.rows, ~judged.kept & ~judged.gone
        stored = np.bincount(
            covered.shard_segment,
            covered.shards["size"].to_numpy() + covered.shards["cardinality_size"].to_numpy(),
            count,
        ).astype(np.int64)
        order = {values: number for number, values in enumerate(listing.partitions)}
        numbers = np.array([order.get(values, number) for number, values in enumerate(covered.partitions)], float)
        files = per_segment(np.ones_like(rows))
        places = np.bincount(covered.segment, numbers[covered.partition], count) / np.maximum(files, 1)
        base = int(covered.files["size"].to_numpy().sum()) if len(rows) else 0
        return cls(
            per_segment(rows * judged.kept),
            per_segment(judged.kept),
            per_segment(dead),
            per_segment(judged.gone),
            per_segment(rows * judged.gone),
            stored,
            places,
            int(stored.sum()) / base if base else USUAL_RATIO,
            listing,
        )

    def size_of(self, part: _Part) -> float:
        if part.read:
            return float(self.listing.sizes[list(part.read)].sum()) * self.ratio
        rows = self.kept_rows[part.segment], self.gone_rows[part.segment]
        return float(self.bytes[part.segment]) * (rows[0] + 1) / (sum(rows) + 1)

    def place_of(self, part: _Part) -> float:
        if part.read:
            return float(self.listing.partition[list(part.read)].mean())
        return float(self.places[part.segment])


def _touched(
    covered: Covered,
    judged: Judged,
    rules: Rules,
    facts: _Facts,
    present: Mapping[str, int],
    is_foreign: Callable[[str], bool],
) -> set[int]:
    """Return the positions of the segments that must be replaced, whatever their size.

    A segment must be replaced if some of its rows are removed, or if other programs have put files into its folder.
    With `rules.take_over`, all segments must be replaced. `present` maps the paths of all files in the segments'
    folders to their sizes. `is_foreign` takes the path of a file that is not a shard, and returns whether SQL queries
    of the index table would read it as a shard.
    """
    shards = set(covered.shards["shard"].to_pylist())
    foreign_folders = {path.rpartition("/")[0] for path in present if path not in shards and is_foreign(path)}
    touched = set()
    for number, folder in enumerate(covered.segments):
        gone, rows = facts.gone_files[number], facts.gone_rows[number] + facts.kept_rows[number]
        is_aged = rules.now - generation_names.build_time(folder) >= DEAD_SECONDS
        is_due = gone and (facts.gone_rows[number] >= DEAD_SHARE * rows or is_aged or rules.remove_dead)
        if (
            rules.take_over
            or is_due
            or facts.dead_files[number]
            or not facts.kept_files[number]
            or folder in foreign_folders
        ):
            touched.add(number)
    return touched


def _new_parts(listing: Listing, judged: Judged, readers: Mapping[int, Hashable]) -> list[tuple[int, ...]]:
    """Group the files to read, one group for each new segment.

    A group has the positions of its files in the listing. The files of a group have equal `readers` (see `plan`), and a
    limited total size.
    """
    by_readers: dict[Hashable, list[int]] = {}
    for number in judged.why:
        by_readers.setdefault(readers.get(number), []).append(number)
    most = max(SEGMENT_BASE_BYTES, int(listing.sizes.sum()) // merging.MOST_LARGE)
    parts = []
    for numbers in by_readers.values():
        numbers.sort(key=lambda number: (int(listing.partition[number]), listing.files[number].path))
        ends = np.cumsum(listing.sizes[numbers])
        group = (ends - 1) // most
        edges = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(numbers)]
        parts += [tuple(numbers[start:end]) for start, end in pairwise(edges) if start < end]
    return parts


def _merged(
    parts: Sequence[_Part],
    facts: _Facts,
    rules: Rules,
    folders: Sequence[str],
    readers_of: Callable[[Sequence[str]], Sequence[Hashable]],
    readers: Mapping[int, Hashable],
) -> list[list[int]]:
    """Return groups of parts, each to become one segment.

    A group has the positions of its parts in `parts`, which all have equal readers (see `plan`). Parts that are not
    merged are in no group. `folders` are the folders of the old segments. `readers_of` may make requests, so it is
    called only if there are parts of fitting sizes to merge.
    """
    sized = [Sized(facts.size_of(part), facts.place_of(part)) for part in parts]
    if not merging.merged(sized, all_small=rules.compact):
        return []
    most = merging.largest(sum(part.bytes for part in sized))
    small = [at for at, part in enumerate(sized) if part.bytes < most and not parts[at].read]
    segment_readers = dict(zip(small, readers_of([folders[parts[at].segment] for at in small]), strict=True))
    classes = [
        readers.get(part.read[0]) if part.read else segment_readers.get(at, ("alone", at))
        for at, part in enumerate(parts)
    ]
    return merging.merged(
        [replace(part, readers=part_readers) for part, part_readers in zip(sized, classes, strict=True)],
        all_small=rules.compact,
    )


def _assembled(covered: Covered, judged: Judged, rules: Rules, parts: Sequence[_Part]) -> NewSegment:
    """Return the new segment that consists of these parts.

    The new segment takes over the manifest rows of the parts' old segments that `judged` keeps. `rules` decide which
    shards are rewritten.
    """
    segments = sorted(part.segment for part in parts if part.segment >= 0)
    chosen = np.isin(covered.segment, segments)
    taken_over = chosen & judged.kept
    read = tuple(chain.from_iterable(part.read for part in parts))
    linked, rewritten = _shards(
        covered, np.isin(covered.shard_segment, segments), taken_over, rules, merge=len(parts) > 1
    )
    return NewSegment(
        replaced=tuple(covered.segments[number] for number in segments),
        files=covered.files.filter(pa.array(taken_over)),
        read=read,
        why=tuple(judged.why[number] for number in read),
        linked=linked,
        rewritten=rewritten,
    )


def _shards(
    covered: Covered, of_segments: Flags, taken_over: Flags, rules: Rules, *, merge: bool
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return the shards to link, and the groups of shards to rewrite.

    Each group is rewritten as one shard. `of_segments` flags the shards of the replaced segments. `taken_over` flags
    the manifest rows that the new segment takes over. With `merge`, small neighbouring shards are merged even if they
    are few.
    """
    names: list[str] = covered.shards["shard"].to_pylist()
    shard_of = np.where(covered.shard_of < 0, len(names), covered.shard_of)
    files = np.bincount(shard_of, minlength=len(names) + 1)[: len(names)]
    kept_files = np.bincount(shard_of[taken_over], minlength=len(names) + 1)[: len(names)]
    sizes = np.where(taken_over, covered.files["size"].to_numpy(), 0)
    kept_bytes = np.bincount(shard_of, sizes, len(names) + 1)[: len(names)]
    fill = np.maximum(kept_bytes / rules.shard_bytes, _memory(covered) / rules.shard_memory)  # 1: a full shard
    is_used = of_segments & (kept_files > 0)
    small = np.flatnonzero(is_used & (fill < 1 / 2))
    first = np.full(len(names) + 1, len(shard_of))  # the first file of each shard, which determines the neighbours
    np.minimum.at(first, shard_of, np.arange(len(shard_of)))
    joined: list[list[int]] = []
    if merge or rules.compact or len(small) > MANY_SHARDS:
        ordered = small[np.argsort(first[small], kind="stable")].tolist()
        joined = merging.neighbours(ordered, fill.tolist(), _shared_paths(covered, taken_over, shard_of, len(names)))
    unjoined = np.setdiff1d(np.flatnonzero(is_used), [shard for group in joined for shard in group]).tolist()
    whole = {shard for shard in unjoined if kept_files[shard] == files[shard] and not rules.rewrite}
    linked = tuple(names[shard] for shard in unjoined if shard in whole)
    singles = [[shard] for shard in unjoined if shard not in whole]
    return linked, tuple(tuple(names[shard] for shard in group) for group in [*joined, *singles])


def _shared_paths(covered: Covered, taken_over: Flags, shard_of: Longs, count: int) -> list[frozenset[str]]:
    """Return for each shard the paths that have several manifest rows.

    A path has several rows if partitions share a folder. `taken_over` flags the manifest rows to look at, `shard_of`
    has the position of the shard of each row, and `count` is the number of shards. The last set, at `count`, is for
    rows without a shard.
    """

    paths = covered.files["path"].filter(pa.array(taken_over))
    counts = pc.value_counts(paths)
    repeated_paths = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    shared_paths: list[set[str]] = [set() for _ in range(count + 1)]
    if len(repeated_paths):
        shared: Flags = pc.is_in(covered.files["path"], value_set=repeated_paths).to_numpy().astype(bool) & taken_over
        for row in np.flatnonzero(shared).tolist():
            shared_paths[shard_of[row]].add(covered.files["path"][row].as_py())
    return [frozenset(paths_of_shard) for paths_of_shard in shared_paths]


def _memory(covered: Covered) -> Doubles:
    """Estimate the bytes of each shard in memory."""
    path = pc.max(pc.binary_length(covered.files["path"])).as_py() or 0
    stored, rows = (covered.shards[name].to_numpy() for name in ("size", "rows"))
    memory: Doubles = stored * COMPRESSION + rows * (ROW_BYTES + path)
    return memory
