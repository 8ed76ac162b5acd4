"""Which tables of a SerDe are supported, by properties and the session's settings, and which files Hadoop lists."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core import stores
from hive_bitmap.core.columns import Column
from hive_bitmap.core.formats import BY_INPUT_FORMAT, FILE_FORMATS
from hive_bitmap.core.listings import serde
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.core.table_info import Partition, Table
from hive_bitmap.errors import Unsupported

TEXT = "org.apache.hadoop.mapred.TextInputFormat"
LAZY = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
TABLE = Table(
    database="db",
    name="t",
    kind="MANAGED",
    provider="hive",
    columns=(Column("n", "int"),),
    partition_columns=(Column("p", "int"),),
    input_format=TEXT,
    serde=LAZY,
    options={"field.delim": ","},
    properties={"transient_lastDdlTime": "1", "x": "y"},
)
UNALIKE = [  # a property, a value that means nothing, one that does, and why
    ("skip.header.line.count", "0", "1", "Hive skips lines that Spark reads as rows"),
    ("skip.footer.line.count", "0", "2", "Hive skips lines that Spark reads as rows"),
    ("line.delim", "\n", "|", "its lines do not end as Hadoop's do"),
    ("avro.schema.url", "", "hdfs://n/s", "put it into avro.schema.literal"),
]
NOTHING = ["numRows", "TOTALSIZE", "last_modified_by", "spark.sql.sources.schema", "hive_bitmap.x", "stats_generated"]
DOUBTFUL = [
    "textinputformat.record.delimiter",
    "mapreduce.input.fileinputformat.input.dir.recursive",
    "mapreduce.input.fileinputformat.input.dir.nonrecursive.ignore.subdirs",
    "mapred.input.dir.recursive",
    "mapreduce.input.pathFilter.class",
    "mapred.input.pathfilter.class",
    "mapreduce.input.linerecordreader.line.maxlength",
    "mapred.linerecordreader.maxlength",
    "hive.lazysimple.extended_boolean_literal",
    "hive.mapred.supports.subdirectories",
    "io.compression.codecs",
    "spark.files.ignoreCorruptFiles",
    "spark.files.ignoreMissingFiles",
]


@pytest.mark.parametrize("format", [one for one in FILE_FORMATS if one.has_layout], ids=lambda one: one.name)
def test_a_table_is_known_by_its_serde(format: object) -> None:
    known = BY_INPUT_FORMAT[format.input_format]  # type: ignore[attr-defined]
    for name in known.serdes:
        serde.require_known(replace(TABLE, serde=name), known)
    with pytest.raises(Unsupported, match=rf"table db\.t is {known.name} read by org\.x\.Own, which is not supported"):
        serde.require_known(replace(TABLE, serde="org.x.Own"), known)


@pytest.mark.parametrize("where", ["properties", "options"])
@pytest.mark.parametrize(("name", "harmless", "harmful", "why"), UNALIKE)
def test_what_hive_and_spark_may_see_apart_is_refused(
    where: str, name: str, harmless: str, harmful: str, why: str
) -> None:
    serde.require_known(replace(TABLE, **{where: {name: harmless}}), BY_INPUT_FORMAT[TEXT])  # type: ignore[arg-type]
    with pytest.raises(Unsupported, match=rf"table db\.t has {name} = .*: .*{why}"):
        serde.require_known(replace(TABLE, **{where: {name: harmful}}), BY_INPUT_FORMAT[TEXT])  # type: ignore[arg-type]


def test_what_decides_how_files_are_read() -> None:
    assert serde.read_properties(TABLE) == (TEXT, LAZY, "field.delim=,", "x=y")
    ignored = {**TABLE.properties, **dict.fromkeys(NOTHING, "1")}
    assert serde.read_properties(replace(TABLE, properties=ignored)) == serde.read_properties(TABLE)
    changed = replace(TABLE, options={"field.delim": "|"})
    assert serde.read_properties(changed) == (TEXT, LAZY, "field.delim=|", "x=y")
    for other in (
        replace(TABLE, provider="parquet"),
        replace(TABLE, input_format="org.apache.hadoop.hive.ql.io.orc.OrcInputFormat"),
        replace(TABLE, input_format="org.x.Own"),
    ):
        assert serde.read_properties(other) == ()


def test_partitions_are_read_as_their_table() -> None:
    like = Partition(
        values=("1",),
        location="file:/p",
        input_format=TEXT,
        serde=LAZY,
        properties=(("field.delim", ","), ("numFiles", "3")),
    )
    serde.require_same_properties(TABLE, [like, like])
    for unlike in (
        replace(like, serde="org.x.Own"),
        replace(like, input_format="org.x.Own"),
        replace(like, properties=(("field.delim", "|"),)),
        replace(like, properties=()),
    ):
        with pytest.raises(Unsupported, match=r"partition \('1',\) of table db\.t has other read properties"):
            serde.require_same_properties(TABLE, [like, unlike])
        serde.require_same_properties(replace(TABLE, partition_columns=()), [unlike])  # it has the table's for none
        serde.require_same_properties(replace(TABLE, provider="parquet"), [unlike])


@pytest.mark.parametrize("prefix", ["", "spark.hadoop."])
@pytest.mark.parametrize("name", DOUBTFUL)
def test_settings_by_which_a_session_may_read_otherwise(name: str, prefix: str) -> None:
    assert serde.why_unsupported({"a": "1", prefix + name: "True"}) == f"{prefix}{name} is True"
    assert serde.why_unsupported({prefix + name: "FALSE"}) is None
    assert serde.why_unsupported({f"x.{name}": "true"}) is None


def test_other_settings_do_not_matter() -> None:
    assert serde.why_unsupported({}) is None
    harmless = ["mapreduce.input.fileinputformat.split.minsize", "hive.exec.compress.output", "io.file.buffer.size"]
    assert serde.why_unsupported(dict.fromkeys(harmless, "true")) is None


@given(st.text(st.sampled_from("_.a"), min_size=1, max_size=3))
def test_hidden_names(name: str) -> None:
    assert serde.is_visible(name) is (name[0] == "a")


def files_in(folder: Path) -> list[FileStatus]:
    [listing] = stores.listings([f"file:{folder}"])
    return serde.files(f"file:{folder}", listing)


def test_the_files_of_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    with pytest.raises(Unsupported, match="is missing; Spark cannot read this table either"):
        files_in(folder)
    folder.mkdir()
    for name, content in (("b", b"2"), ("a%20 é", b"1"), ("empty", b""), ("_SUCCESS", b"x"), (".a.crc", b"x")):
        (folder / name).write_bytes(content)
    (folder / "_temporary").mkdir()
    (folder / ".staging").mkdir()
    assert [file.path for file in files_in(folder)] == [f"file:{folder}/a%20 é", f"file:{folder}/b"]
    (folder / "sub").mkdir()
    with pytest.raises(Unsupported, match="contains the folder 'sub', which readers may fail on"):
        files_in(folder)
