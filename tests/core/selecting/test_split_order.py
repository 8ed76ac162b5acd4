"""The order of splits, against a model of what Spark does with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.index.manifest import Freshness
from hive_bitmap.core.selecting.candidates import LookupResults, WholeFile
from hive_bitmap.core.selecting.split_order import Piece, WholePiece, cut, pieces_in_order, runs
from hive_bitmap.core.selecting.table_files import PartitionState
from hive_bitmap.core.stores import FileStatus
from tests.core.planning.test_planner import BYTES, looked_up
from tests.core.selecting.lookups import with_column


def work_of(blocks: list[int], whole: list[int], known: bool = True) -> LookupResults:
    """Files with so many blocks of BYTES, and then whole files of so many bytes, in the order of a listing."""
    found = looked_up(*[[1] * count for count in blocks])
    new = [FileStatus(f"file:/w/new{number}", size, 1, "") for number, size in enumerate(whole)]
    files = [FileStatus(one.path, one.size, 1, "") for one in found.lookups[0].fingerprints]
    starts = [np.arange(count) * BYTES if known else None for count in blocks]
    state = PartitionState(name="", values=(), files=(*files, *new))
    return replace(
        found,
        lookups=(with_column(found.lookups[0], "starts", starts),),
        partitions=(state,),
        whole_files=tuple(WholeFile(0, file, Freshness.UNINDEXED, "") for file in new),
    )


def expected(work: LookupResults, most: int, format: str) -> list[tuple[str, int]]:
    """(path, block) as Spark reads them; block -1 for a split of a whole file."""
    files = work.partitions[0].files
    splits = [(min(most, file.size - start), file.path, start) for file in files for start in range(0, file.size, most)]
    splits.sort(key=lambda split: -split[0])  # which is stable
    unit, found = work.lookups[0].unit, []
    for length, path, start in splits:
        if "new" in path:
            found.append((path, -1))
            continue
        [file] = [number for number, known in enumerate(unit.paths) if known == path]
        for block in np.flatnonzero(unit.file == file).tolist():
            at = (block - int(np.searchsorted(unit.file, file))) * BYTES + (BYTES // 2 if format == "parquet" else 0)
            if start <= at < start + length:
                found.append((path, block))
    return found


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.lists(st.integers(1, 6 * BYTES), max_size=3),
    st.integers(BYTES // 3, 8 * BYTES),
    st.sampled_from(["parquet", "orc"]),
)
def test_pieces_stand_as_spark_reads_them(blocks: list[int], whole: list[int], most: int, format: str) -> None:
    work = work_of(blocks, whole)
    found: list[tuple[str, int]] = []
    for piece in pieces_in_order(work, format, most) or []:
        if isinstance(piece, WholePiece):
            found.append((work.whole_files[piece.whole].status.path, -1))
        else:
            path = work.lookups[piece.lookup].unit.paths[piece.file]
            found += [(path, block) for block in range(piece.first, piece.end)]
    assert found == expected(work, most, format)


def test_blocks_of_unknown_places_are_in_no_order_if_their_file_has_several_splits() -> None:
    work = work_of([2, 2], [], known=False)
    assert pieces_in_order(work, "parquet", BYTES) is None
    assert len(pieces_in_order(work, "parquet", 2 * BYTES) or []) == 2
    assert len(pieces_in_order(work, "parquet", 0) or []) == 2


def test_runs_are_of_one_kind() -> None:
    work = work_of([3, 1], [2 * BYTES, BYTES // 2])
    found = pieces_in_order(work, "orc", 10 * BYTES) or []
    assert [[type(piece) for piece in run] for run in runs(found)] == [[Piece], [WholePiece], [Piece], [WholePiece]]


@pytest.mark.parametrize(
    ("weights", "parts", "wanted"),
    [([], 2, []), ([5], 3, [(0, 1)]), ([1, 1, 1, 1], 2, [(0, 2), (2, 4)])],
)
def test_items_are_cut_by_weight(weights: list[float], parts: int, wanted: list[tuple[int, int]]) -> None:
    assert cut(weights, parts) == wanted
