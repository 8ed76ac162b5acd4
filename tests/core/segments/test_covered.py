"""What segments cover once partitions lie in other folders."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest

from hive_bitmap.core.index.manifest import FILES, SHARDS
from hive_bitmap.core.segments.covered import Covered
from hive_bitmap.core.table_info import Values

ROW = {"size": 1, "mtime_ms": 1, "etag": "", "tail_crc32": 0, "shard": "s", "reason": "", "schema_crc": 0}
LISTS = {name: [] for name in ("indirect", "offsets", "lengths", "rows")}
ONE, TWO = ("1",), ("2",)


def covered(*files: tuple[Values, str]) -> Covered:
    rows = [{**ROW, **LISTS, "values": list(values), "path": path} for values, path in files]
    table = pa.Table.from_pylist(rows, FILES)
    return Covered(("g",), table, SHARDS.empty_table(), np.zeros(len(files), np.int64), np.zeros(0, np.int64))


@pytest.mark.parametrize(
    ("files", "folders", "after", "former"),
    [
        ([(ONE, "/a/f"), (TWO, "/b/f")], {ONE: "/a", TWO: "/b"}, [(ONE, "/a/f"), (TWO, "/b/f")], {}),
        ([(ONE, "/a/f")], {ONE: "/n"}, [(ONE, "/n/f")], {"/n/f": "/a/f"}),
        ([(ONE, "/a/f"), (TWO, "/b/f")], {ONE: "/n"}, [(ONE, "/n/f")], {"/n/f": "/a/f"}),  # partition 2 is gone
        ([(ONE, "/a/f"), (TWO, "/b/f")], {ONE: "/b"}, [(ONE, "/b/f")], {"/b/f": "/a/f"}),  # and 1 is where it was
        ([(ONE, "/a/f"), (TWO, "/b/f")], {ONE: "/b", TWO: "/a"}, [(ONE, "/b/f"), (TWO, "/a/f")], None),  # swapped
        ([(ONE, "/a/f"), (ONE, "/b/f"), (TWO, "/b/f")], {ONE: "/b", TWO: "/b"}, [], {}),  # two files, one path
        ([(ONE, "/a/f"), (TWO, "/a/f")], {ONE: "/n", TWO: "/m"}, [], {}),  # one file, two paths
        ([(ONE, "/a/f"), (TWO, "/a/f")], {ONE: "/n", TWO: "/n"}, [(ONE, "/n/f"), (TWO, "/n/f")], {"/n/f": "/a/f"}),
    ],
)
def test_files_that_moved(
    files: list[tuple[Values, str]],
    folders: Mapping[Values, str],
    after: list[tuple[Values, str]],
    former: Mapping[str, str] | None,
) -> None:
    moved, paths = covered(*files).moved_to(folders)
    rows = zip(moved.files["values"].to_pylist(), moved.files["path"].to_pylist(), strict=True)
    assert [(tuple(values), path) for values, path in rows] == after
    assert len(moved.segment) == len(after) == len(moved.partition)
    assert paths == ({"/b/f": "/a/f", "/a/f": "/b/f"} if former is None else former)
