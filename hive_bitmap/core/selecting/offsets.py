"""Write the result file of a compact index of Hive.

Hive 0.7 to 2.3 reads result files. A result file has the line `path \\x01 offset (\\x02 offset)* \\n` for each base
file to read. The line has the offsets of the blocks to read; they are decimal, and readers reject an empty list. Hive
reads a split if one of the offsets lies in the split. So the offset of a block is the byte by which a reader assigns
the block to a split: the start of an ORC stripe, or the first data page of a Parquet row group. The reader is
https://github.com/apache/hive/blob/rel/release-2.3.9/ql/src/java/org/apache/hadoop/hive/ql/index/HiveIndexResult.java.

The reader looks up a base file by the text of its path. If a base file is not in the result file, the reader silently
drops all splits of the base file. So paths are written exactly in the form of Hadoop's `Path.toString()`, or no result
file is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from hive_bitmap.core.formats import UNSPLIT
from hive_bitmap.errors import Unsupported

READER_LIMIT = 10 << 30  # bytes of splits; Hive 2's default of hive.index.compact.query.max.size
_MISREAD = re.compile(r"[\x00-\x1f,{}\[\]*?\\]")  # Hive splits lines, lists and paths at these, or reads them as globs
_PRINTED = re.compile(r"(?:file:|[^/:]+://[^/]+)?(?:/[^/]+)+")  # schemes except `file:` have an authority
_REMOVED = re.compile(r"/\.\.?(?:/|$)")  # `.` and `..`, which Hadoop resolves


def selected_offsets(files: pa.Table, blocks: pa.Table, whole: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """Return the offsets of the blocks with selected rows, by file path.

    `files` and `blocks` are the tables of these names in a plan. `whole` has all offsets of the files that are read
    whole, by file path.
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
    """Return offsets that cover the selected blocks, by file path.

    `files` and `blocks` are the tables of these names in a plan, and `format` is the name of the files' format. Each
    split that overlaps a selected block contains one of the offsets. The function is for formats whose blocks consist
    of smaller units, such as lines or parts between sync marks. The index does not record the positions of these units.

    A reader assigns a unit to the split that contains the first byte of the unit, or to the split that ends at this
    byte. Each split of a file except the last has at least `split` bytes. So a split that overlaps a block contains the
    block's first byte, the byte after the block, or one of the bytes in between at intervals of `split` bytes.
    Compressed text has a single block and a single split, so `split` is not needed. Raises Unsupported if `split` is
    needed and None.
    """
    paths = files["path"].to_pylist()
    offsets: dict[str, list[int]] = {}
    chosen = blocks.filter(pa.array(blocks["selected"].to_numpy() > 0)).select(["file", "offset", "length"])
    for file, offset, length in zip(*(column.to_pylist() for column in chosen.columns), strict=True):
        if paths[file].endswith(UNSPLIT[format]):
            offsets[paths[file]] = [offset]
            continue
        if split is None:
            raise Unsupported(
                f"the index does not record where the lines or sync marks of {paths[file]} are: pass min_split=N "
                "(--min-split N) if the reader has mapreduce.input.fileinputformat.split.minsize=N, or use Spark"
            )
        offsets.setdefault(paths[file], []).extend([*range(offset, offset + length, split), offset + length])
    return offsets


def result_file(offsets: Mapping[str, Iterable[int]], *, utf8: bool = False) -> bytes:
    """Return the bytes of a result file.

    `offsets` has the offsets of the blocks to read, by file path. A file without offsets gets no line. Hive decodes the
    paths with the default charset of its JVM. `utf8` states that this charset is UTF-8. Raises Unsupported for a path
    that Hive would misread, and without `utf8` for a path that is not ASCII.

    >>> result_file({"file:/w/t/a b": [4, 128]})
    b'file:/w/t/a b\\x014\\x02128\\n'
    """
    lines = []
    for path, numbers in sorted(offsets.items()):
        _require_readable(path, utf8)
        offset_list = "\x02".join(str(number) for number in sorted(set(numbers)))
        if offset_list:
            lines.append(f"{path}\x01{offset_list}\n")
    return "".join(lines).encode()


def _require_readable(path: str, utf8: bool) -> None:
    odd = _MISREAD.search(path)
    if odd:
        raise Unsupported(f"a compact-index reader would misread {odd.group()!r} in the path {path!r}; rename the file")
    if not _PRINTED.fullmatch(path) or _REMOVED.search(path):
        raise Unsupported(f"a compact-index reader would miss {path!r}, because Hadoop prints that path differently")
    if not utf8 and not path.isascii():
        raise Unsupported(
            f"{path!r} is not ASCII, and Hive misses it unless its Java defaults to UTF-8; run there "
            "SELECT reflect('java.nio.charset.Charset', 'defaultCharset'): if it is UTF-8, pass utf8=True (--utf8)"
        )
