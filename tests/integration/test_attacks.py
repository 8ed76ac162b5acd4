"""Attacks as anybody can carry them out, by what the package offers in all its versions: that old ones fail is shown.

`python scripts/red_before.py` runs these tests on the package as it was when it was attacked (tests/attacks.py).
"""

from __future__ import annotations

import contextlib
import gc
import os
import stat
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hive_bitmap
from hive_bitmap.core.index import checksums, manifest
from hive_bitmap.core.stores import file_cache
from hive_bitmap.core.stores.options import Options
from hive_bitmap.errors import HiveBitmapError
from tests.asking import indexed, require_alike, told, under
from tests.forging import forge, forge_without_three

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.turn(2)

OLD = "generation-20250101T000000-deadbeef"
READS_ONLY = "hive_bitmap.engine_reads_only"
REFUSED = contextlib.suppress(HiveBitmapError, OSError)  # what is refused may be refused in any way


def table(spark: SparkSession, name: str) -> str:
    """Make a table of 1,000 rows, 200 of which have k = 3."""
    spark.sql(f"CREATE TABLE {name} USING parquet AS SELECT CAST(id % 5 AS INT) k FROM range(1000)")
    return name


def location(spark: SparkSession, name: str) -> Path:
    """The folder of a table of the current database."""
    tables: Any = spark._jsparkSession.sharedState().externalCatalog()
    return Path(tables.getTable(spark.catalog.currentDatabase(), name).location().getPath())


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def precious(folder: Path) -> set[str]:
    """Make a folder with files of somebody else; return them."""
    (folder / "sub").mkdir(parents=True)
    for name in ("payroll.parquet", "sub/more"):
        (folder / name).write_text("precious")
    return files(folder)


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all builds seem to be those of a process that has ended, whose files nobody needs to spare."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        pass
    monkeypatch.setattr(os, "getpid", lambda: child.pid)


@pytest.fixture
def other_catalog(spark: SparkSession, database: str) -> Iterator[str]:
    """The name of another catalog, with the namespace APP; there is a database of this name, too."""
    spark.sql("CREATE DATABASE app")
    name = f"other_{uuid4().hex}"  # a session keeps the catalogs that it has loaded
    setting = f"spark.sql.catalog.{name}"
    of_catalog = {
        setting: "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        f"{setting}.url": f"jdbc:derby:memory:{name};create=true",
        f"{setting}.driver": "org.apache.derby.jdbc.EmbeddedDriver",
    }
    for key, value in of_catalog.items():
        spark.conf.set(key, value)
    yield name
    spark.catalog.setCurrentCatalog("spark_catalog")
    spark.catalog.setCurrentDatabase(database)
    for key in of_catalog:
        spark.conf.unset(key)
    spark.sql("DROP DATABASE app CASCADE")


def test_a10_a_name_is_the_table_that_spark_reads(spark: SparkSession, database: str, other_catalog: str) -> None:
    hive_bitmap.build(spark, table(spark, "app.t"), ["k"])
    spark.sql(f"CREATE TABLE {other_catalog}.APP.t (k INT)")
    spark.sql(f"INSERT INTO {other_catalog}.APP.t VALUES (3), (3)")
    spark.sql(f"USE {other_catalog}.APP")
    assert hive_bitmap.count(spark, "t", "k = 3") == spark.table("t").where("k = 3").count() == 2
    assert hive_bitmap.scan(spark, "t", "k = 3").count() == 2


@pytest.mark.contract
def test_b4_groups_of_char_and_varchar(spark: SparkSession, database: str) -> None:
    """Spark keeps these types, and has not seen the table before."""
    spark.sql("CREATE TABLE c (id INT, v VARCHAR(10), ch CHAR(4)) USING parquet")
    spark.sql("INSERT INTO c SELECT id, concat('v', id % 3), concat('c', id % 2) FROM range(100)")
    hive_bitmap.build(spark, "c", ["v", "ch"])
    spark.catalog.refreshTable("c")
    with under(spark, {"spark.sql.preserveCharVarcharTypeInfo": "true"}):
        for query in ("SELECT v, count(*) FROM c GROUP BY v", "SELECT ch, count(*) FROM c GROUP BY ch"):
            require_alike(spark, query, "index only")


@pytest.mark.parametrize("what", ["rebuild", "clean", "drop"])
def test_b5_a_flipped_byte_of_a_marker_stops_nothing(
    spark: SparkSession, database: str, tmp_path: Path, what: str
) -> None:
    hive_bitmap.build(spark, table(spark, "t"), ["k"], location=str(tmp_path / "root"))
    (tmp_path / "root" / OLD).mkdir()
    (tmp_path / "root" / OLD / "_built_by").write_bytes(b'{"host": "\xff"}')
    spark.sql("INSERT INTO t VALUES (3)")
    if what == "drop":
        hive_bitmap.drop(spark, "t", "k")
        assert hive_bitmap.show(spark, "t") == []
    elif what == "clean":
        hive_bitmap.clean(spark, "t")
    else:
        hive_bitmap.rebuild(spark, "t")
        assert hive_bitmap.show(spark, "t")[0].unindexed == 0


def test_c1_a_drop_leaves_alone_what_a_link_leads_to(spark: SparkSession, database: str, tmp_path: Path) -> None:
    before = precious(tmp_path / "victim")
    hive_bitmap.build(spark, table(spark, "t"), ["k"], location=str(tmp_path / "root"))
    (tmp_path / "root" / OLD).symlink_to(tmp_path / "victim")
    with REFUSED:
        hive_bitmap.drop(spark, "t", "k")
    assert files(tmp_path / "victim") == before
    assert hive_bitmap.show(spark, "t") == []


def options(folder: Path, megabytes: int) -> Options:
    return Options.of({"hive_bitmap.stores.cache_folder": str(folder), "hive_bitmap.stores.cache_size": str(megabytes)})


def test_c2_the_cache_removes_no_files_of_others(tmp_path: Path) -> None:
    (tmp_path / "thesis.pdf").write_bytes(bytes(2 << 20))
    file_cache.put(options(tmp_path, 1), "key", b"a shard")
    assert "thesis.pdf" in files(tmp_path)


def test_c3_a_drop_leaves_the_index_of_another_database(
    spark: SparkSession, database: str, tmp_path: Path, ended: None
) -> None:
    """Both want the same folder; who comes second may be refused, and has its own then."""
    other = f"{database}_b"
    spark.sql(f"CREATE DATABASE {other}")
    for name in (table(spark, "t"), table(spark, f"{other}.t")):
        try:
            hive_bitmap.build(spark, name, ["k"], location=str(tmp_path / "shared"))
        except HiveBitmapError:
            hive_bitmap.build(spark, name, ["k"])
    with in_database(spark, other):
        theirs = location(spark, f"{other}__t_k__")
    before = files(theirs)
    hive_bitmap.drop(spark, "t", "k")
    assert before and files(theirs) == before
    assert hive_bitmap.show(spark, f"{other}.t")[0].fresh > 0


@contextlib.contextmanager
def in_database(spark: SparkSession, name: str) -> Iterator[None]:
    """Make another database the current one for a while."""
    before = spark.catalog.currentDatabase()
    spark.catalog.setCurrentDatabase(name)
    try:
        yield
    finally:
        spark.catalog.setCurrentDatabase(before)


def test_c4_a_drop_of_a_forged_table_leaves_the_index_whose_folder_it_names(
    spark: SparkSession, database: str, tmp_path: Path, ended: None
) -> None:
    hive_bitmap.build(spark, table(spark, "t"), ["k"])
    published = location(spark, f"{database}__t_k__")
    before = files(published)
    forge(spark, "t", f"file:{tmp_path}/forged", name="aaa", index_table=f"{database}__t_aaa__")
    with REFUSED:
        hive_bitmap.drop(spark, "t", "aaa")
    assert before and files(published) == before
    assert [one.definition.name for one in hive_bitmap.show(spark, "t")] == ["k"]
    assert hive_bitmap.count(spark, "t", "k = 3") == 200


@pytest.mark.contract
def test_c5_no_index_lies_in_a_table_of_another_database(spark: SparkSession, database: str) -> None:
    other = f"{database}_b"
    spark.sql(f"CREATE DATABASE {other}")
    table(spark, f"{other}.t")
    with in_database(spark, other):
        theirs = location(spark, "t")
    before = files(theirs)
    with REFUSED:
        hive_bitmap.build(spark, table(spark, "t"), ["k"], location=str(theirs))
    assert files(theirs) == before
    assert hive_bitmap.show(spark, "t") == []


def test_d1_a_forged_index_answers_no_query(spark: SparkSession, database: str, tmp_path: Path) -> None:
    """It belongs to somebody else, comes first by name, and says that there is no 3."""
    hive_bitmap.build(spark, table(spark, "v"), ["k"])
    forge_without_three(spark, f"file:{tmp_path}/mallory", "aaa", f"{database}__v_aaa__", "mallory")
    with indexed(spark, "index only"):
        assert spark.sql("SELECT count(*) FROM v WHERE k = 3").first() == (200,)
    assert hive_bitmap.count(spark, "v", "k = 3") == 200


def test_d2_the_where_of_a_forged_index_does_not_run(spark: SparkSession, database: str, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE p (k INT, p INT) USING parquet PARTITIONED BY (p)")
    spark.sql("INSERT INTO p SELECT CAST(id % 5 AS INT), CAST(id % 2 AS INT) FROM range(100)")
    hive_bitmap.build(spark, "p", ["k"])
    ran = f"hive_bitmap.ran.{database}"
    where = f"reflect('java.lang.System', 'setProperty', '{ran}', 'yes') IS NULL"
    root = f"file:{tmp_path}/root"
    forge(spark, "p", root, name="bbb", index_table=f"{database}__p_bbb__", root=root, where=where)
    with REFUSED:
        hive_bitmap.show(spark, "p")
    jvm: Any = spark._jvm
    assert jvm.java.lang.System.getProperty(ran) is None
    assert [one.definition.name for one in hive_bitmap.show(spark, "p")] == ["bbb", "k"]


def test_d4_where_only_spark_may_read_no_keys_are_copied(spark: SparkSession, database: str) -> None:
    table(spark, "t")
    with under(spark, {READS_ONLY: "true"}), REFUSED:
        hive_bitmap.build(spark, "t", ["k"])
    assert not spark.catalog.tableExists(f"{database}__t_k__"), "the keys are in an index table"


@contextlib.contextmanager
def started_with_reads_only(spark: SparkSession) -> Iterator[None]:
    """As if Spark had been started with the setting: it is in its configuration, and in that of its session."""
    context: Any = spark.sparkContext
    context._conf.set(f"spark.{READS_ONLY}", "true")
    _forget_server()
    try:
        with under(spark, {f"spark.{READS_ONLY}": "true"}):
            yield
    finally:
        context._conf._jconf.remove(f"spark.{READS_ONLY}")
        _forget_server()


def _forget_server() -> None:
    """Have what is kept of the server's configuration read anew, where it is kept."""
    with contextlib.suppress(ImportError):  # a session had the last word
        from hive_bitmap.spark.metastore import jvm_settings

        jvm_settings._of_server.cache_clear()


@pytest.mark.contract
def test_d4_a_session_cannot_allow_it(spark: SparkSession, database: str) -> None:
    hive_bitmap.build(spark, table(spark, "t"), ["k"])
    query = "SELECT count(*) FROM t WHERE k = 3"
    with started_with_reads_only(spark):
        assert told(spark, query, "index only") == [("t", "left alone")]
        assert told(spark, query, "index only", engine_reads_only="false") == [("t", "left alone")]
    assert told(spark, query, "index only") == [("t", "answered")]


def test_d5_keys_are_as_private_as_the_files_they_are_from(spark: SparkSession, database: str) -> None:
    folder = location(spark, table(spark, "t"))
    folder.chmod(0o755)
    for path in folder.glob("*.parquet"):
        path.chmod(0o600)
    hive_bitmap.build(spark, "t", ["k"])
    shards = list(location(spark, f"{database}__t_k__").glob("generation-*/part-*"))
    assert shards and {stat.S_IMODE(shard.stat().st_mode) & 0o077 for shard in shards} == {0}


def test_d6_a_cache_that_others_can_write_is_not_believed(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    file_cache.put(options(cache, 1), "key", b"evil")
    for path in (cache, *cache.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
        if os.getuid() == 0:  # only root gives files away
            os.chown(path, 65534, 65534)
    assert file_cache.get(options(cache, 1), "key") is None


@pytest.mark.contract
def test_e2_row_groups_hold_few_bytes_of_long_keys(spark: SparkSession, database: str) -> None:
    """A lookup of one key decodes a row group."""
    rows = "SELECT concat(lpad(id, 8, '0'), repeat('x', 3992)) u FROM range(0, 3600, 1, 1)"
    spark.sql(f"CREATE TABLE t USING parquet AS {rows}")
    hive_bitmap.build(spark, "t", ["u"])
    [shard] = location(spark, f"{database}__t_u__").glob("generation-*/part-*.parquet")
    stored = pq.ParquetFile(shard)
    groups = [stored.read_row_group(number, ["u"])["u"] for number in range(stored.num_row_groups)]
    sizes = [pc.sum(pc.binary_length(group)).as_py() for group in groups]
    assert sum(sizes) == 3600 * 4000 and max(sizes) < 5 << 20


@pytest.mark.contract
def test_e3_manifests_that_are_kept_take_no_more_than_is_allowed(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    hive_bitmap.build(spark, table(spark, "t"), ["k"])
    with under(spark, {"hive_bitmap.stores.memory": "1"}):
        assert hive_bitmap.count(spark, "t", "k = 3") == 200
        kept = [weakref.ref(manifest.read(large_manifest(tmp_path / str(number)))) for number in range(16)]
    gc.collect()
    assert 0 < sum(found.files.nbytes for ref in kept if (found := ref()) is not None) <= 1 << 20


def large_manifest(folder: Path) -> str:
    """Write a manifest of some 110 kB; return its folder."""
    rows = [{"path": f"file:/w/{'x' * 500}{number}", "size": 1, "tail_crc32": number} for number in range(200)]
    (folder / checksums.FOLDER).mkdir(parents=True)
    manifest.write(f"file:{folder}", [pa.Table.from_pylist(rows, manifest.FILES)], manifest.SHARDS.empty_table(), {})
    return f"file:{folder}"
