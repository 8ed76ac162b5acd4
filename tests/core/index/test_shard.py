"""Tests of the row groups of shards: a lookup decodes at least one, so they are small whatever the keys are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import lookup, shard
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.shard import built_schema, key_fields

DEFINITION = Definition(
    name="k",
    database="default",
    table="t",
    columns=(Column("k", "string"),),
    encoding="plain",
    index_table="x",
    root="file:/x",
)


def written(folder: Path, keys: Sequence[str | None]) -> tuple[str, int]:
    """A shard of these keys, sorted, each in one block; its path and its size."""
    (folder / "_manifest").mkdir()
    rows = {
        "k": pa.array(keys, pa.string()),
        "_bucketname": [f"file:{folder}/f"] * len(keys),
        "_offset": pa.array([4] * len(keys)),
        "_bitmaps": pa.array([b"\x01"] * len(keys), pa.binary()),
        "_cardinality": pa.array([1] * len(keys), pa.int32()),
    }
    path = f"file:{folder}/part.parquet"
    return path, shard.write(path, pa.table(rows).cast(built_schema(DEFINITION)), DEFINITION).size


def test_long_keys_are_looked_up_in_one_row_group(tmp_path: Path) -> None:
    keys = [f"{number:08d}{'x' * 3_992}" for number in range(3_600)]
    path, size = written(tmp_path, [*keys, None])
    groups = pq.ParquetFile(tmp_path / "part.parquet")
    sizes = [
        pc.sum(pc.binary_length(groups.read_row_group(n, ["k"])["k"])).as_py() for n in range(groups.num_row_groups)
    ]
    assert max(sizes) <= shard.ROW_GROUP_KEY_BYTES + len(keys[0])
    wanted, field = keys[1_777], key_fields(DEFINITION)[0]

    def may_hold(stats: lookup.KeyStats) -> bool:
        return stats.low is None or stats.low <= wanted <= stats.high

    assert lookup.share(path, size, field, may_hold) * len(sizes) == 1
    [entries] = lookup.find(
        path, size, field, may_hold, lambda found: pc.equal(found, wanted).fill_null(False).to_numpy(False)
    )
    assert entries.cardinality is not None and entries.cardinality.tolist() == [1]


def test_a_key_of_many_blocks_counts_once(tmp_path: Path) -> None:
    # stored once by the dictionary of the column, so the bitmaps of its blocks alone decide
    keys = np.repeat(["a" * 3_000, "b" * 3_000], 5_000).tolist()
    written(tmp_path, keys)
    assert pq.read_metadata(tmp_path / "part.parquet").num_row_groups == 1


def test_keys_of_usual_length_do_not_change_the_row_groups(tmp_path: Path) -> None:
    keys = [f"{number:064d}" for number in range(90_000)]  # as the hex digits of SHA-256
    written(tmp_path, keys)
    metadata = pq.read_metadata(tmp_path / "part.parquet")
    rows = shard.ROW_GROUP_BYTES // (shard.ROW_BYTES + 1)  # a bitmap of one byte
    assert [metadata.row_group(n).num_rows for n in range(3)] == [rows, rows, 90_000 - 2 * rows]
