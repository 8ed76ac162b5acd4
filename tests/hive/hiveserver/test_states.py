"""A table as a server sees it: files that all readers see alike, and manifests that are whole."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import schema_crc
from hive_bitmap.core.index.manifest import Manifest
from hive_bitmap.core.selecting.table_files import TableFiles
from hive_bitmap.core.stores import local_path
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import CorruptIndex, NotPermitted, Unsupported
from hive_bitmap.hive.hiveserver.states import format_of, table_files
from tests.hive.hiveserver.folders import server
from tests.spark.building.generations import K, S, Workshop

TEXT = "org.apache.hadoop.mapred.TextInputFormat"
ORC = "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat"
PARQUET = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
BASE = Table(
    database="db",
    name="t",
    kind="MANAGED",
    provider="hive",
    columns=(K, S),
    location="file:/w/t",
    input_format=PARQUET,
    serde="org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
)
OF_ORC = replace(BASE, input_format=ORC, serde="org.apache.hadoop.hive.ql.io.orc.OrcSerde")
OF_TEXT = replace(BASE, input_format=TEXT, serde=SERDE)


@pytest.mark.parametrize(
    ("table", "settings", "format"),
    [
        (BASE, (), "parquet"),
        (OF_ORC, ("orc.force.positional.evolution=false",), "orc"),
        (OF_ORC, (), "orc"),
        (
            OF_ORC,
            ("orc.force.positional.evolution=TRUE",),
            "table db.t is read differently from how it was indexed: orc.force.positional.evolution=TRUE",
        ),
        (OF_TEXT, ("a=", "mapred.input.dir.recursive=true"), "text"),
        (
            OF_TEXT,
            ("io.compression.codecs=org.apache.hadoop.io.compress.GzipCodec, com.hadoop.compression.lzo.LzoCodec",),
            "text",
        ),
        (
            OF_TEXT,
            ("io.compression.codecs=org.apache.hadoop.io.compress.GzipCodec,com.acme.Codec",),
            "table db.t is read differently from how it was indexed: ",
        ),
        (
            OF_TEXT,
            ("textinputformat.record.delimiter=;",),
            "table db.t is read differently from how it was indexed: ",
        ),
    ],
)
def test_settings_of_a_server_that_change_what_is_read(table: Table, settings: tuple[str, ...], format: str) -> None:
    serving = server(settings=settings)
    serving.__dict__["is_spark"] = False
    if " " not in format:
        assert format_of(serving, table) == format
        return
    with pytest.raises(Unsupported) as raised:
        format_of(serving, table)
    assert str(raised.value).startswith(format)


def stated(shop: Workshop, *indexes: tuple[Any, str], **settings: Any) -> TableFiles:
    of_indexes = [(definition, [folder]) for definition, folder in indexes]
    return table_files(server(**settings), shop.base, "parquet", {(): f"file:{shop.folder}/base"}, of_indexes)


def test_files_and_the_manifest_of_an_index(tmp_path: Path) -> None:
    shop = Workshop.at(tmp_path)
    a = shop.write("a.parquet", [1, 2, 3])
    (tmp_path / "base" / "_SUCCESS").write_text("")
    (tmp_path / "base" / "empty.parquet").write_text("")
    crc = schema_crc(shop.base.columns, "UTC", {})
    shop = shop.under(crc)
    _, published = shop.carried_out(shop.change(a))
    found = stated(shop, (shop.definition, published.folder))
    assert [(one.path, one.size, one.mtime_ms, one.etag) for one in found.files] == [(a.path, a.size, a.mtime_ms, "")]
    assert [(one.name, one.values) for one in found.partitions] == [("", ())]
    known = found.records[shop.definition.name]
    assert known.fresh.tolist() == [True] and known.covered.segments == (published.folder,)


def test_a_folder_that_is_gone_has_no_files(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    table = replace(BASE, partition_columns=(Column("p", "int"), Column("q", "string")))
    [found] = table_files(server(), table, "parquet", {("1", None): f"file:{tmp_path}/gone"}, []).partitions
    assert (found.name, found.files) == ("p=1/q=NULL", ())
    with pytest.raises(Unsupported, match="is missing, and readers fail without it: create it"):
        of_text = replace(table, input_format=TEXT, serde=SERDE, partition_columns=())
        table_files(server(), of_text, "text", {(): f"file:{tmp_path}/gone"}, [])


@pytest.mark.parametrize(
    ("name", "folder", "refused"),
    [
        ("sub", True, True),  # some readers go into it
        ("_temporary", True, False),
        (".hidden", False, False),
        ("_delta", False, False),
        ("_k=1", False, True),  # Spark takes it for a partition
        ("x._COPYING_", False, True),  # Spark leaves it out, and Hive reads it
        ("x.parquet", False, False),
    ],
)
def test_names_about_which_readers_differ(tmp_path: Path, name: str, folder: bool, refused: bool) -> None:
    shop = Workshop.at(tmp_path)
    path = tmp_path / "base" / name
    if folder:
        path.mkdir()
    else:
        path.write_text("x")
    if not refused:
        assert len(stated(shop).files) == (name == "x.parquet")
        return
    with pytest.raises(Unsupported) as raised:
        stated(shop)
    assert str(raised.value) == f"not all readers read file:{path}: move it away, or its rows could be missed"


def built(tmp_path: Path) -> tuple[Workshop, Manifest]:
    shop = Workshop.at(tmp_path)
    return shop, shop.carried_out(shop.change(shop.write("a.parquet", [1])))[1]


@pytest.mark.parametrize("harm", ["missing", "short", "stranger"])
def test_a_folder_that_is_not_as_it_was_built(tmp_path: Path, harm: str) -> None:
    shop, published = built(tmp_path)
    [shard] = published.sizes
    path = Path(local_path(published.shard_path(shard)))
    match harm:
        case "missing":
            path.unlink()
        case "short":
            os.truncate(path, 5)
        case _:
            (path.parent / "stranger").write_text("x")
    with pytest.raises(CorruptIndex) as raised:
        stated(shop, (shop.definition, published.folder))
    named = "stranger" if harm == "stranger" else shard
    assert str(raised.value) == (
        f"folder {published.folder} was changed after the build, see {named}: rebuild the index"
    )


def test_a_manifest_that_is_gone_or_not_permitted(tmp_path: Path) -> None:
    shop, published = built(tmp_path)
    with pytest.raises(NotPermitted):
        stated(shop, (shop.definition, published.folder), denied="_manifest")
    Path(local_path(f"{published.folder}/_manifest/manifest.json.gz")).unlink()
    with pytest.raises(CorruptIndex, match=r"cannot be read: .*; if it is not there, rebuild the index in full"):
        stated(shop, (shop.definition, published.folder))


def test_files_that_were_indexed_with_other_columns_are_not_indexed(tmp_path: Path) -> None:
    shop, published = built(tmp_path)  # under a checksum that no columns of the table have
    indexes = [(shop.definition, [published.folder])]
    for format, known in [("orc", False), ("parquet", True)]:  # whose columns go by name and type
        found = table_files(server(), shop.base, format, {(): f"file:{shop.folder}/base"}, indexes)
        assert found.records[shop.definition.name].fresh.tolist() == [known]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_the_zone_of_the_engine_that_built_does_not_matter(tmp_path: Path, zone: str) -> None:
    shop = Workshop.at(tmp_path)
    base = replace(shop.base, columns=(K, S, Column("at", "timestamp")))
    shop = shop.under(schema_crc(base.columns, zone, {}))
    _, published = shop.carried_out(shop.change(shop.write("a.parquet", [1])))
    indexes = [(shop.definition, [published.folder])]
    found = table_files(server(), base, "orc", {(): f"file:{tmp_path}/base"}, indexes)
    assert found.records[shop.definition.name].fresh.tolist() == [True]
