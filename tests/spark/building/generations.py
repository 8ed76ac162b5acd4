"""Generations of an index that are made as a build makes them, but in this process and without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hive_bitmap.core import stores
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import generation, manifest, roots
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.manifest import Manifest
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.table_info import Table, Values
from hive_bitmap.spark.building import partition_change
from hive_bitmap.spark.building.file_groups import jobs_like
from hive_bitmap.spark.building.group_indexing import Group, index_group
from hive_bitmap.spark.building.partition_change import Change, Content
from hive_bitmap.spark.building.refresh import from_scratch
from hive_bitmap.spark.building.shard_compaction import Compaction, compact_shards
from hive_bitmap.spark.building.staged_values import ReadOptions
from hive_bitmap.spark.metastore.base_files import Source

K, S = Column("k", "int"), Column("s", "string")
CRC = 7


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
        texts = [None if key is None else str(key * key) for key in keys]
        table = pa.table({"k": pa.array(keys, pa.int32()), "s": pa.array(texts, pa.string())})
        path = self.folder / "base" / name
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table, path, row_group_size=row_group_size)
        return stores.status(f"file:{path}")

    def source(self, *files: FileStatus, values: Values = ()) -> Source:
        return Source(values, f"file:{self.folder}/base", files)

    def change(self, *files: FileStatus, published: Manifest | None = None, **fields: Any) -> Change:
        """A change that indexes these files anew, unless `fields` have another plan."""
        given = {
            "index": 0,
            "partition": 0,
            "definition": self.definition,
            "source": self.source(*files),
            "published": published,
            "refresh": from_scratch(files),
            "folder": f"{self.definition.root}/{generation.new_name()}",
        }
        return Change(**{**given, **fields})

    def carried_out(self, change: Change, cores: int = 1) -> tuple[Content, Manifest]:
        """Carry out a change; return what it says that it made, and the manifest as it is read again."""
        partition_change.start([change])
        reports = []
        for job in jobs_like(self.template, [change], cores):
            work = job.work
            reports += compact_shards(work) if isinstance(work, Compaction) else index_group(work)
        [content] = partition_change.finish([change], [replace(report, index=change.index) for report in reports])
        return content, manifest.read(change.generation)


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
