"""The compact-index result file, as Hive 0.7 to 2.3 reads it: which offsets of which files hold selected rows.

A line a file: `path \\x01 offset (\\x02 offset)* \\n`, decimal offsets, never an empty list: readers reject it.
Hive keeps a split when an offset lies in it, so the offset of a block is the byte by which a reader assigns that block
to a split: the start of an ORC stripe, the first data page of a Parquet row group. Hive's reader is
https://github.com/apache/hive/blob/rel/release-2.3.9/ql/src/java/org/apache/hadoop/hive/ql/index/HiveIndexResult.java.

A reader looks a file up by the text of its path, and drops the splits of one that it does not find, without a word. So
a path stands here as Hadoop's `Path.toString()` prints it, or nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from hive_bitmap.errors import Unsupported
from hive_bitmap.formats.text import DEFLATE, GZIP

READER_LIMIT = 10 << 30  # bytes of splits that a Hive 2 reads unless hive.index.compact.query.max.size says otherwise
_MISREAD = re.compile(r"[\x00-\x1f,{}\[\]*?\\]")  # Hive splits lines, lists and paths at these, or takes them for globs
_PRINTED = re.compile(r"(?:file:|[^/:]+://[^/]+)?(?:/[^/]+)+")  # no empty part; with an authority, except for `file:`
_REMOVED = re.compile(r"/\.\.?(?:/|$)")  # what Hadoop takes out of a path


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


def covering_offsets(files: pa.Table, blocks: pa.Table, format: str, split: int | None) -> dict[str, list[int]]:
    """For each file that holds selected rows, offsets that every split with a part of their blocks holds.

    For formats whose blocks are runs of smaller units, lines or parts between sync marks, of which the index does not
    know where they lie. A reader gives a unit to a split that holds its first byte, or ends there. Splits are `split`
    bytes or longer, but for the last of a file; so one that shares a byte with a block holds its first byte, the one
    behind it, or one of those that lie `split` bytes apart in between. Compressed text has one block, and one split.
    Raises Unsupported where `split` is None and matters.
    """
    paths = files["path"].to_pylist()
    offsets: dict[str, list[int]] = {}
    chosen = blocks.filter(pa.array(blocks["selected"].to_numpy() > 0)).select(["file", "offset", "length"])
    for file, offset, length in zip(*(column.to_pylist() for column in chosen.columns), strict=True):
        if format == "text" and paths[file].endswith((GZIP, DEFLATE)):
            offsets[paths[file]] = [offset]
            continue
        if split is None:
            raise Unsupported(
                f"where the lines, or sync marks, of {paths[file]} lie only its bytes tell: say min_split=N "
                "(--min-split N) where the reader has mapreduce.input.fileinputformat.split.minsize=N, or ask Spark"
            )
        offsets.setdefault(paths[file], []).extend([*range(offset, offset + length, split), offset + length])
    return offsets


def result_file(offsets: Mapping[str, Iterable[int]], *, utf8: bool = False) -> bytes:
    """The bytes of a result file; raises Unsupported for a path that Hive would misread.

    Hive takes the paths through the default charset of its Java, so those that are not ASCII are written only where the
    caller knows that to be UTF-8.

    >>> result_file({"file:/w/t/a b": [4, 128]})
    b'file:/w/t/a b\\x014\\x02128\\n'
    """
    lines = []
    for path, numbers in sorted(offsets.items()):
        _require_readable(path, utf8)
        listed = "\x02".join(str(number) for number in sorted(set(numbers)))
        if listed:
            lines.append(f"{path}\x01{listed}\n")
    return "".join(lines).encode()


def _require_readable(path: str, utf8: bool) -> None:
    odd = _MISREAD.search(path)
    if odd:
        raise Unsupported(f"a compact-index reader would misread {odd.group()!r} in the path {path!r}; rename the file")
    if not _PRINTED.fullmatch(path) or _REMOVED.search(path):
        raise Unsupported(f"a compact-index reader would miss {path!r}, for Hadoop prints that path in another form")
    if not utf8 and not path.isascii():
        raise Unsupported(
            f"{path!r} is not ASCII, and a Hive whose Java does not take UTF-8 for its default would miss it; ask it "
            "SELECT reflect('java.nio.charset.Charset', 'defaultCharset'), and if it says UTF-8, say utf8=True (--utf8)"
        )
