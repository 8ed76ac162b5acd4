"""The files and blocks that Spark's own reader is given to read."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.listings.scan_listing import ScanListing, parse
from hive_bitmap.spark.catalyst.ranges import _ranges


@given(st.lists(st.tuples(st.integers(1, 50), st.booleans()), max_size=12))
def test_a_block_is_read_if_and_only_if_it_is_selected(blocks: list[tuple[int, bool]]) -> None:
    """Spark reads a block if the range has its middle (Parquet) or its first byte (ORC)."""
    lengths, selected = [length for length, _ in blocks], np.array([chosen for _, chosen in blocks], bool)
    starts = np.cumsum([4, *lengths])[:-1]
    found = _ranges(selected, starts, 4 + sum(lengths))
    for place in (starts, starts + np.array(lengths, int) // 2):
        read = [any(begin <= at < end for begin, end in zip(found[::2], found[1::2], strict=True)) for at in place]
        assert read == selected.tolist()
    assert found == sorted(set(found))  # neighbours are one range


def test_a_file_whose_blocks_are_not_known_is_read_whole_or_not_at_all() -> None:
    assert _ranges(np.array([False, True]), None, 99) == [0, 99]
    assert _ranges(np.array([False, False]), None, 99) == []


def test_names_of_files_and_partitions_survive() -> None:
    odd = parse("P\t=a\\tb\t\nF\t3\t5\tfile:/w/x\\ny\\\\z\nF\t0\t5\tfile:/w/empty\n")
    assert odd.partitions[0][0] == ("a\tb", None)
    assert [file.path for file in odd.files] == ["file:/w/x\ny\\z", "file:/w/empty"]
    assert [file.size for _, files in odd.without_empty for file in files] == [3]
    assert parse("") == ScanListing(())


def test_where_a_store_tells_parts_of_a_second_in_its_listing_only_they_are_left_out() -> None:
    found = parse("P\nF\t10\t1999\ts3a://b/x\nF\t10\t1999\tfile:/x\nF\t10\t1999\thdfs://n/x").files
    assert [file.mtime_ms for file in found] == [1000, 1999, 1999]
