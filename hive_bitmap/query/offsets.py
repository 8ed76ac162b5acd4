"""The compact-index result file, as Hive 0.7 to 2.3 reads it: which offsets of which files hold selected rows.

A line a file: `path \\x01 offset (\\x02 offset)* \\n`, decimal offsets, never an empty list: readers reject it.
Hive keeps a split when an offset lies in it, so the offset of a block is the byte by which a reader assigns that block
to a split: the start of an ORC stripe, the first data page of a Parquet row group.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from hive_bitmap.errors import Unsupported

UNREADABLE = re.compile(r"[\x00-\x1f,{}\[\]*?]")  # Hive splits lines, lists and paths at these, or takes them for globs


def selected_offsets(files: pa.Table, blocks: pa.Table, whole: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """For each file that holds selected rows, the offsets of their blocks; `whole` gives those of files read whole.

    `files` and `blocks` have the schemas of `planner`.
    """
    paths = files["path"].to_pylist()
    offsets: dict[str, list[int]] = {}
    chosen = blocks.filter(pa.array(blocks["selected"].to_numpy() > 0)).select(["file", "offset"])
    for file, offset in zip(chosen["file"].to_pylist(), chosen["offset"].to_pylist(), strict=True):
        offsets.setdefault(paths[file], []).append(offset)
    for path, all_offsets in whole.items():
        offsets[path] = list(all_offsets)
    return offsets


def result_file(offsets: Mapping[str, Iterable[int]]) -> bytes:
    """The bytes of a result file; raises Unsupported for a path that Hive would misread.

    >>> result_file({"file:/w/t/a b": [4, 128]})
    b'file:/w/t/a b\\x014\\x02128\\n'
    """
    lines = []
    for path, numbers in sorted(offsets.items()):
        odd = UNREADABLE.search(path)
        if odd:
            raise Unsupported(f"a compact-index reader would misread {odd.group()!r} in the path {path!r}")
        listed = "\x02".join(str(number) for number in sorted(set(numbers)))
        if listed:
            lines.append(f"{path}\x01{listed}\n")
    return "".join(lines).encode()
