"""The folders of tables that are followed, and of their partitions."""

from __future__ import annotations

import pytest

from hive_bitmap.core.table_info import Table
from hive_bitmap.spark.following.refresher import TableFolder, TableFolders

TABLE = Table(database="d", name="t", kind="MANAGED", location="file:/w/d.db/t")


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("file:/w/d.db/t", {}),
        ("file:///w/d.db/t/", {}),
        ("file:/w/d.db/t/p=1", {"p": "1"}),
        ("file:/w/d.db/t/p=1/q=x y", {"p": "1", "q": "x y"}),
        ("file:/w/d.db/t/p=a%3Db/q=__HIVE_DEFAULT_PARTITION__", {"p": "a=b", "q": None}),
    ],
)
def test_folders_of_a_table(path: str, values: dict[str, str | None]) -> None:
    places = TableFolders()
    assert places.at(path) is None
    places.add(TABLE)
    assert places.at(path) == TableFolder("d", "t", values)


OTHERS = ["file:/w/d.db", "file:/w/d.db/t2", "file:/w/d.db/t/sub", "file:/w/p=1", "s3a://w/d.db/t"]


@pytest.mark.parametrize("path", OTHERS)
def test_other_folders(path: str) -> None:
    places = TableFolders()
    places.add(TABLE)
    assert places.at(path) is None


def test_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hive_bitmap.spark.following.refresher.MOST_TABLES", 1)
    places = TableFolders()
    places.add(TABLE)
    places.add(Table(database="d", name="u", kind="MANAGED", location="file:/w/d.db/u"))
    assert places.at(TABLE.location) is None and places.at("file:/w/d.db/u") == TableFolder("d", "u", {})
