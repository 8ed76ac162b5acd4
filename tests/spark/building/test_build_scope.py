"""What a planned build has in scope: what is kept of an index, what its records are believed, and what goes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hive_bitmap.core import stores
from hive_bitmap.core.index import listing_digest
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.stores import FileStatus, local_path
from hive_bitmap.core.table_info import Table, Values
from hive_bitmap.spark.building.build_scope import BuildPlan, Scope, trusted
from hive_bitmap.spark.building.partition_change import Change
from hive_bitmap.spark.building.refresh import from_scratch
from hive_bitmap.spark.metastore.base_files import Source
from hive_bitmap.spark.registry.catalog import Index, Published
from tests.spark.building.generations import CRC, K, Workshop

BASE = Table(database="db", name="t", kind="MANAGED")
INDEX = Definition(name="i", database="db", table="t", columns=(K,))
FOLDER = "file:/i/p=1/generation-20261125T000000-0a1b2c3d"
ONE: Values = ("1",)
FILES = tuple(FileStatus(f"file:/t/{name}", 5, 1, "e") for name in "ab")
SOURCE = Source(ONE, "file:/t", FILES)
RECORDED = Published(FOLDER, listing_digest.of_listing(FOLDER, INDEX, FILES, CRC))


@pytest.mark.parametrize(
    ("published", "fields", "source", "crc", "untouched"),
    [
        (RECORDED, {}, SOURCE, CRC, True),
        (RECORDED, {}, replace(SOURCE, files=FILES[::-1]), CRC, True),
        (RECORDED, {"quick": False}, SOURCE, CRC, False),  # a rebuild looks at everything
        (RECORDED, {"full": True}, SOURCE, CRC, False),
        (RECORDED, {}, SOURCE, CRC + 1, False),  # the table has other columns
        (RECORDED, {}, replace(SOURCE, files=FILES[:1]), CRC, False),
        (RECORDED, {}, replace(SOURCE, files=(*FILES[:1], replace(FILES[1], mtime_ms=2))), CRC, False),
        (RECORDED, {}, replace(SOURCE, values=("2",)), CRC, False),  # another partition
        (RECORDED, {"definition": replace(INDEX, encoding="ewah")}, SOURCE, CRC, False),
        (Published(FOLDER), {}, SOURCE, CRC, False),  # nothing was recorded
        (Published(f"{FOLDER}x", RECORDED.listing), {}, SOURCE, CRC, False),  # that of another generation
        (None, {}, SOURCE, CRC, False),
    ],
)
def test_what_a_record_is_believed(
    published: Published | None, fields: dict[str, Any], source: Source, crc: int, untouched: bool
) -> None:
    known = {} if published is None else {ONE: published}
    scope = Scope(**{"definition": INDEX, "published": known, "quick": True, **fields})
    assert scope.is_untouched(source, crc) is untouched


def test_what_is_recorded() -> None:
    scope = Scope(definition=INDEX, published={ONE: RECORDED, ("2",): Published(FOLDER)})
    assert [scope.recorded((value,)) for value in "123"] == [RECORDED.listing, "", ""]


def test_what_is_kept_of_a_generation(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shop = Workshop.at(tmp_path)
    a = shop.write("a.parquet", [1])
    _, found = shop.carried_out(shop.change(a))
    scope = Scope(definition=shop.definition, published={(): Published(found.folder)})

    def kept(scope: Scope, values: Values = ()) -> list[str] | None:
        manifest = scope.kept(values)
        return None if manifest is None else manifest.files["path"].to_pylist()

    assert kept(scope) == [a.path]
    assert kept(scope, ONE) is None
    assert kept(replace(scope, full=True)) is None
    # of a former index what was taken counts, and nothing else
    assert kept(replace(scope, former=shop.definition)) is None
    of_new = Scope(definition=replace(shop.definition, id="new"), published={})
    assert kept(replace(of_new, former=shop.definition, taken={(): found.folder})) == [a.path]
    # a folder outside the root is not of this index, whatever the metastore says
    assert kept(replace(scope, definition=replace(shop.definition, root=f"{shop.definition.root}2"))) is None
    assert kept(replace(scope, published={(): Published(f"{found.folder}x")})) is None
    # damage that came after a manifest was read is seen
    [files] = [f for f in stores.listing(f"{found.folder}/_manifest").files if f.path.endswith("files.parquet")]
    Path(local_path(files.path)).write_bytes(b"PAR1")
    assert kept(scope) is None
    assert "a damaged part of the index is built from scratch" in caplog.text


def plan(published: list[str], *partitions: tuple[int, ...], of: str = "12") -> BuildPlan:
    """A plan for indexes that cover partitions by number, each with these values published."""
    sources = tuple(Source((value,), "", ()) for value in of)
    scopes = tuple(
        Scope(definition=INDEX, published={(value,): RECORDED for value in published}, partitions=numbers)
        for numbers in partitions
    )
    changes = tuple(
        Change(
            index=index,
            partition=number,
            definition=INDEX,
            source=sources[number],
            published=None,
            refresh=from_scratch(()),
            folder="",
        )
        for index, numbers in enumerate(partitions)
        for number in numbers
    )
    return BuildPlan(base=BASE, sources=sources, scopes=scopes, changes=changes, schema_crc=CRC)


@pytest.mark.parametrize(
    ("planned", "dropped", "empty"),
    [
        (plan([], ()), [[]], True),
        (plan(["1"], (0,)), [[]], False),
        (plan(["1"], ()), [[("1",)]], False),  # it is to be dropped, and so there is something to do
        (plan(["1", "2", "3"], (1,)), [[("1",), ("3",)]], False),
        (plan(["1", "2"], (0,), (0, 1)), [[("2",)], []], False),  # the first index has a WHERE now
        (plan([], (), (0,)), [[], []], False),
    ],
)
def test_published_partitions_that_are_not_covered_go(
    planned: BuildPlan, dropped: list[list[Values]], empty: bool
) -> None:
    assert [planned.dropped(number) for number in range(len(planned.scopes))] == dropped
    assert planned.is_empty is empty


def test_changes_of_an_index() -> None:
    planned = plan([], (0,), (), (1, 0))
    assert [[one.partition for one in planned.changes_of(index)] for index in range(3)] == [[0], [], [1, 0]]


def index(name: str, problem: str = "", trusted: bool = True) -> Index:
    return Index(definition=replace(INDEX, name=name), table=BASE, problem=problem, trusted=trusted)


A, B, STRANGE = index("a"), index("b", "it lost a column"), index("x", "of another owner", trusted=False)


@pytest.mark.parametrize(
    ("indexes", "names", "told"),
    [
        ([], "", ""),
        ([A, B], "ab", ""),  # a problem is what a rebuild repairs
        ([A, STRANGE], "a", "not rebuilt: of another owner"),
        ([STRANGE], "x", ""),  # it is refused with its problem then, and not passed over
    ],
)
def test_indexes_that_are_not_trusted_are_left_out_and_told(
    indexes: list[Index], names: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert "".join(one.definition.name for one in trusted(indexes)) == names
    assert caplog.messages == ([told] if told else [])
