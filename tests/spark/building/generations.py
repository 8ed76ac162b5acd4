"""Segments of an index that are made as a build makes them, but in this process and without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hive_bitmap.core import stores
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import generation_names, manifest, roots
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.manifest import FILES, Manifest
from hive_bitmap.core.indexing import segment_change
from hive_bitmap.core.indexing.group_indexing import Group, index_group
from hive_bitmap.core.indexing.segment_change import BaseFile, Change
from hive_bitmap.core.indexing.shard_compaction import Compaction, compact_shards
from hive_bitmap.core.indexing.staged_values import ReadOptions
from hive_bitmap.core.segments.covered import Covered
from hive_bitmap.core.segments.segment_plan import NewSegment
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.table_info import Table, Values
from hive_bitmap.spark.building.file_groups import jobs_like

K, S, P = Column("k", "int"), Column("s", "string"), Column("p", "string")
CRC = 7


def texts(columns: Sequence[Column], values: Sequence[Values]) -> pa.Table:
    """The stored values of partition columns that are strings."""
    arrays = [pa.array([one[at] for one in values], pa.string()) for at in range(len(columns))]
    return pa.table(arrays, [column.name for column in columns])


def new_segment(replaced: Sequence[str] = (), files: pa.Table | None = None, **fields: Any) -> NewSegment:
    """A segment that takes nothing over and reads nothing, unless `fields` say so."""
    given = {"read": (), "why": (), "linked": (), "rewritten": (), **fields}
    return NewSegment(replaced=tuple(replaced), files=FILES.empty_table() if files is None else files, **given)


@dataclass(frozen=True)
class Workshop:
    """A folder with base files of columns k and s, and the root of an index on k."""

    folder: Path
    definition: Definition
    crc: int = CRC  # under which files are indexed

    @classmethod
    def at(cls, folder: Path, **fields: Any) -> Workshop:
        given = {"name": "i", "database": "db", "table": "t", "columns": (K,), "root": f"file:{folder}/index"}
        definition = roots.identified(Definition(**{**given, "index_table": "db__t_i__", **fields}))
        (folder / "base").mkdir()
        roots.claim(definition, "metastore")
        return cls(folder, definition)

    @property
    def base(self) -> Table:
        location = f"file:{self.folder}/base"
        return Table(database="db", name="t", kind="MANAGED", provider="parquet", columns=(K, S), location=location)

    @property
    def template(self) -> Group:
        """A group without files, as all groups of a build are."""
        return Group(
            paths=(),
            bytes=0,
            read_options=ReadOptions("parquet", (K, S), "UTC"),
            schema_crc=self.crc,
            definitions=(),
            folders=(),
        )

    def under(self, crc: int) -> Workshop:
        return replace(self, crc=crc)

    def write(self, name: str, keys: Sequence[int | None], row_group_size: int = 2) -> FileStatus:
        """Write a base file of these keys, and of texts that are their squares."""
        squares = [None if key is None else str(key * key) for key in keys]
        table = pa.table({"k": pa.array(keys, pa.int32()), "s": pa.array(squares, pa.string())})
        path = self.folder / "base" / name
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table, path, row_group_size=row_group_size)
        return stores.status(f"file:{path}")

    def change(self, *files: FileStatus | BaseFile, published: Covered | None = None, **fields: Any) -> Change:
        """A change that indexes these files, unless `fields` have another plan."""
        read = tuple(file if isinstance(file, BaseFile) else BaseFile((), file) for file in files)
        given = {
            "index": 0,
            "definition": self.definition,
            "segment": new_segment(read=tuple(range(len(read)))),
            "folder": f"{self.definition.root}/{generation_names.new_name()}",
            "read": read,
            **({} if published is None else {"shards": published.shards}),
        }
        return Change(**{**given, **fields})

    def carried_out(self, change: Change, cores: int = 1) -> tuple[Manifest, Manifest]:
        """Carry out a change; return the manifest that it says it made, and as it is read again."""
        segment_change.start([change])
        reports = []
        for job in jobs_like(self.template, [change], cores, texts):
            work = job.work
            reports += compact_shards(work) if isinstance(work, Compaction) else index_group(work)
        [content] = segment_change.finish([change], [replace(report, index=0) for report in reports])
        return content, manifest.read(change.folder)


def index_rows(published: Manifest) -> dict[tuple[str, int], set[Any]]:
    """The keys of each block, by the name of its file and its number there, as the shards of a manifest have them."""
    found: dict[tuple[str, int], set[Any]] = {}
    numbers = {
        (path, offset): number
        for path, offsets in zip(
            published.files["path"].to_pylist(), published.files["offsets"].to_pylist(), strict=True
        )
        for number, offset in enumerate(offsets)
    }
    for shard in published.shards["shard"].to_pylist():
        for row in pq.read_table(stores.local_path(published.shard_path(shard))).to_pylist():
            place = row["_bucketname"], row["_offset"]
            found.setdefault((place[0].rpartition("/")[2], numbers[place]), set()).add(row["k"])
    return found
