"""A table and an index of it in memory, for tests of what builds do with segments: a dict is the oracle."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

import pyarrow as pa

from hive_bitmap.core.index.manifest import FILES, SHARDS, Manifest
from hive_bitmap.core.segments import slots
from hive_bitmap.core.segments.covered import Covered, Listing
from hive_bitmap.core.segments.segment_plan import NewSegment, Rules, Scope, SegmentPlan, judge, plan
from hive_bitmap.core.segments.slots import Slots
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.table_info import Values

ROOT, EMPTY = "file:/i", "file:/i/empty"
RULES = Rules(schemas=None, schema_crc=7, shard_bytes=1000, shard_memory=1 << 40, now=1e9)
INDEX_SHARE = 0.5  # bytes of a shard to those of its base files
File = tuple[Values, str]
Table = Mapping[File, int]  # the version of each file


def status(path: str, version: int, size: int = 100) -> FileStatus:
    return FileStatus(path, size, version, "")


def listing(table: Table, partitions: Collection[Values] | None = None, size: int = 100) -> Listing:
    by_values: dict[Values, list[FileStatus]] = {}
    for (values, path), version in sorted(table.items(), key=str):
        if partitions is None or values in partitions:
            by_values.setdefault(values, []).append(status(path, version, size))
    return Listing.of(by_values.items())


@dataclass
class World:
    """The segments of an index, by folder, and its slots. Times go up by a second a build."""

    manifests: dict[str, Manifest] = field(default_factory=dict)
    slots: dict[int, str] = field(default_factory=lambda: {0: EMPTY})
    names: Iterator[int] = field(default_factory=itertools.count)
    readers: dict[str, Hashable] = field(default_factory=dict)  # of each segment
    size: int = 100  # bytes of a base file

    def live(self) -> list[str]:
        return sorted({folder for folder in self.slots.values() if folder != EMPTY}, key=slots.seniority)

    def covered(self) -> Covered:
        return Covered.by([self.manifests[folder] for folder in self.live()])

    def present(self, folders: Sequence[str]) -> dict[str, int]:
        found = (self.manifests[folder].located().shards.to_pylist() for folder in folders)
        return {row["shard"]: row["size"] for rows in found for row in rows}

    def planned(
        self,
        table: Table,
        scope: Scope | None = None,
        rules: Rules = RULES,
        readers: Mapping[Values, Hashable] | None = None,
    ) -> tuple[Listing, SegmentPlan]:
        """Return a listing of the table and the plan of a build, from the state of this moment."""
        scope, covered = scope or Scope(), self.covered()
        listed = listing(table, scope.partitions, self.size)
        present = self.present(covered.segments)
        judged = judge(covered, listed, scope, rules, present)
        whose = {at: (readers or {}).get(listed.partitions[listed.partition[at]]) for at in judged.why}
        of_segments = self.readers.get
        return listed, plan(
            covered, judged, listed, rules, present, lambda folders: [of_segments(one) for one in folders], whose
        )

    def written(self, listed: Listing, one: NewSegment, readers: Hashable = None) -> str:
        """Write a new segment, with a shard for each file that is read, and return its folder."""
        number = next(self.names)
        made = datetime.fromtimestamp(RULES.now + number, timezone.utc)
        folder = f"{ROOT}/generation-{made:%Y%m%dT%H%M%S}-{number:08x}"
        files = one.untouched.to_pylist()
        shards = [row for row in self._shards(one.replaced) if row["shard"] in one.linked]
        for some in one.rewritten:
            rows = one.rows_of(some).to_pylist()
            assert rows and len({row["path"] for row in rows}) == len(rows), "a shard has a path twice"
            shards.append(self._shard(folder, len(shards), sum(row["size"] for row in rows)))
            files += [{**row, "shard": shards[-1]["shard"]} for row in rows]
        for at in one.read:
            file = listed.files[at]
            shards.append(self._shard(folder, len(shards), file.size))
            values = listed.partitions[listed.partition[at]]
            known = {
                "path": file.path,
                "size": file.size,
                "mtime_ms": file.mtime_ms,
                "etag": "",
                "values": list(values),
            }
            files.append({**known, "shard": shards[-1]["shard"], "schema_crc": 7, "rows": [10], "reason": ""})
        self.manifests[folder] = Manifest(
            folder,
            pa.Table.from_pylist([_named(row) for row in files], FILES),
            pa.Table.from_pylist([_named(row) for row in shards], SHARDS),
        )
        self.readers[folder] = readers
        return folder

    def _shards(self, folders: Sequence[str]) -> list[dict[str, object]]:
        return [row for folder in folders for row in self.manifests[folder].located().shards.to_pylist()]

    def _shard(self, folder: str, number: int, base: int) -> dict[str, object]:
        name = f"{folder}/part-{number}-{folder[-8:]}.parquet"
        return {"shard": name, "size": int(base * INDEX_SHARE), "rows": 1, "cardinality_size": 0}

    def move(self, seen: Slots, new: Sequence[str], gone: Collection[str]) -> None:
        """Publish by what was seen of the slots, whatever they are now."""
        made = slots.plan_moves(seen, EMPTY, new, gone)
        for number in made.added:
            self.slots.setdefault(number, EMPTY)
        self.slots.update(made.moved)

    def build(self, table: Table, scope: Scope | None = None, rules: Rules = RULES, **more: object) -> SegmentPlan:
        """Carry out a build by itself."""
        listed, made = self.planned(table, scope, rules, **more)  # type: ignore[arg-type]
        readers: Mapping[Values, Hashable] = more.get("readers") or {}  # type: ignore[assignment]
        new = []
        for one in made.new:
            whose = {readers.get(listed.partitions[listed.partition[at]]) for at in one.read}
            whose |= {self.readers[folder] for folder in one.replaced}
            assert len(whose) == 1, "files with different readers share a segment"
            new.append(self.written(listed, one, whose.pop()))
        self.move(self.slots, new, made.gone)
        return made

    def state(self) -> dict[File, int]:
        """The version of each file that is covered; requires that none is covered twice."""
        counted = Counter(file for file, _ in self.rows())
        assert max(counted.values(), default=1) == 1, "a file is covered twice"
        return dict(self.rows())

    def rows(self) -> list[tuple[File, int]]:
        rows = [row for folder in self.live() for row in self.manifests[folder].files.to_pylist()]
        return [((tuple(row["values"]), row["path"]), row["mtime_ms"]) for row in rows]


def _named(row: dict[str, object]) -> dict[str, object]:
    return {**row, "shard": str(row["shard"]).rpartition("/")[2]}


def at(seconds: float, **more: object) -> Rules:
    return replace(RULES, now=RULES.now + seconds, **more)  # type: ignore[arg-type]
