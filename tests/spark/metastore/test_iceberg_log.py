"""What is made of what Iceberg says of files and catalogs, by stand-ins for a session and its metadata tables.

What Iceberg itself says, and `removed_files`, whose rule is a query, are for tests/lake (test_iceberg*.py).
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

from hive_bitmap.core.stores import IMMUTABLE, FileStatus
from hive_bitmap.core.table_info import Lake, Table
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.metastore import iceberg_log
from hive_bitmap.spark.metastore.iceberg_log import described, live_files, removed_files, table_of_catalog
from hive_bitmap.spark.metastore.lake_tables import ICEBERG_CATALOGS, is_iceberg_catalog

CATALOG, OF_SESSION = ICEBERG_CATALOGS
TABLE = Table(database="db", name="t", kind="EXTERNAL", provider="iceberg", catalog="lake")


class Session:
    """A classic session, or one of Spark Connect, whose `data_files` of lake.db.t are given, or fail."""

    def __init__(self, files: Any = (), classic: bool = True, **catalogs: str) -> None:
        self._files, self._catalogs = files, {f"spark.sql.catalog.{name}": one for name, one in catalogs.items()}
        self.conf = SimpleNamespace(get=lambda name, default: self._catalogs.get(name, default))
        self.sparkContext = SimpleNamespace(_jsc=SimpleNamespace(hadoopConfiguration=lambda: None))
        system = SimpleNamespace(getDefaultUri=lambda conf: SimpleNamespace(toString=lambda: "hdfs://nn:8020/"))
        fs = SimpleNamespace(fs=SimpleNamespace(FileSystem=system))
        self._jvm = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(hadoop=fs)))
        self._jsparkSession = "session" if classic else None

    def table(self, name: str) -> Any:
        if isinstance(self._files, Exception):
            raise self._files
        assert name == "`lake`.`db`.`t`.data_files"
        return self

    def select(self, *columns: str) -> Any:
        assert columns == ("file_path", "file_size_in_bytes")
        return self

    def limit(self, most: int) -> Any:
        paths, sizes = [one[0] for one in self._files][:most], [one[1] for one in self._files][:most]
        rows = pa.table({"file_path": pa.array(paths, pa.string()), "file_size_in_bytes": pa.array(sizes, pa.int64())})
        return SimpleNamespace(toArrow=lambda: rows)


def session(files: Any = (), classic: bool = True, **catalogs: str) -> Any:
    return Session(files, classic, **catalogs)


@pytest.mark.parametrize(
    ("catalog", "is_icebergs"), [(CATALOG, True), (OF_SESSION, True), ("com.example.Catalog", False), (None, False)]
)
def test_catalogs_of_iceberg(catalog: str | None, is_icebergs: bool) -> None:
    assert is_iceberg_catalog(session(**({} if catalog is None else {"lake": catalog})), "lake") is is_icebergs


def test_live_files_are_sorted_and_under_hadoops_paths() -> None:
    files = [("s3a://b/w/b%20c.parquet", 7), ("/w//a.parquet", 5), ("file:///w/x=%2F/a.orc", 9)]
    assert live_files(session(files), TABLE) == (
        FileStatus("file:/w/x=%2F/a.orc", 9, 0, IMMUTABLE),  # no URI: what is escaped stays so
        FileStatus("hdfs://nn:8020/w/a.parquet", 5, 0, IMMUTABLE),
        FileStatus("s3a://b/w/b%20c.parquet", 7, 0, IMMUTABLE),
    )
    assert live_files(session(), TABLE) == ()


@pytest.mark.parametrize("twice", ["file:/w/a", "file:///w/a"])
def test_a_file_that_is_listed_twice_is_refused(twice: str) -> None:
    with pytest.raises(Unsupported) as raised:
        live_files(session([("file:/w/a", 1), ("file:/w/b", 1), (twice, 1)]), TABLE)
    assert str(raised.value) == "table lake.db.t lists a file twice, so its rows count twice"


@pytest.mark.parametrize("files", [3, 4])
def test_a_table_of_very_many_files_is_refused(files: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iceberg_log, "MOST_FILES", 3)
    spark = session([(f"file:/w/{number}", 1) for number in range(files)])
    if files == 3:
        assert len(live_files(spark, TABLE)) == 3
        return
    with pytest.raises(Unsupported, match=r"table lake.db.t has more than 3 files: rewrite_data_files first"):
        live_files(spark, TABLE)


def test_files_that_cannot_be_listed_are_told_in_one_line() -> None:
    for list_files in (live_files, lambda spark, table: removed_files(spark, table, 0.0)):
        with pytest.raises(Unsupported) as raised:
            list_files(session(RuntimeError("no such thing\n\tat org.apache")), TABLE)
        assert str(raised.value) == "the files of table lake.db.t cannot be listed: no such thing"


def test_other_tables_and_clients_are_not_asked() -> None:
    never = RuntimeError("asked")
    parquet = Table(database="db", name="t", kind="MANAGED", provider="parquet")
    assert described(session(never), parquet) is parquet
    assert described(session(never, classic=False), TABLE) is TABLE
    assert table_of_catalog(session(never, classic=False), "lake", "db", "t") is None
    assert table_of_catalog(session(never), "", "db", "t") is None  # the session's own catalog is Spark's
    assert table_of_catalog(session(never, spark_catalog=CATALOG), "", "db", "t") is None


@pytest.mark.parametrize("error", [RuntimeError("broken\nat org"), AnalysisException("broken\nat org")])
def test_a_table_that_iceberg_cannot_read_says_why(error: Exception) -> None:
    lake = Lake("iceberg", problem="its log cannot be read: broken")
    assert described(session(error), TABLE).lake == lake
    assert table_of_catalog(session(error), "lake", "db", "t") == Table(
        database="db", name="t", kind="EXTERNAL", provider="iceberg", catalog="lake", lake=lake
    )
    own = table_of_catalog(session(error, spark_catalog=OF_SESSION), "", "db", "t")
    assert own is not None and (own.catalog, own.lake) == ("", lake)


@pytest.mark.parametrize("code", ["TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND"])
def test_a_table_that_is_not_there(code: str) -> None:
    assert table_of_catalog(session(AnalysisException(f"[{code}] db.t")), "lake", "db", "t") is None


@pytest.mark.parametrize(("database", "name"), [("Db", "t"), ("db", "T"), ("db", "a b"), ("db", "é"), ("db", "")])
def test_names_that_catalogs_treat_differently_are_refused(database: str, name: str) -> None:
    never = RuntimeError("asked")
    with pytest.raises(Unsupported, match=r"^the name of table lake.* has characters other than a-z, 0-9 and _, which"):
        table_of_catalog(session(never), "lake", database, name)
    assert table_of_catalog(session(never, spark_catalog=OF_SESSION), "", database, name) is None


def relation(kind: str, table: str, of_rows: str) -> Any:
    def of(name: str, **methods: Any) -> Any:
        return SimpleNamespace(
            getClass=lambda: SimpleNamespace(getSimpleName=lambda: name, getName=lambda: name), **methods
        )

    rows = of(of_rows)
    leaf = of(kind, table=lambda: of(table, table=lambda: rows))
    leaves = SimpleNamespace(head=lambda: leaf)
    plan = SimpleNamespace(analyzed=lambda: SimpleNamespace(collectLeaves=lambda: leaves))
    return SimpleNamespace(_jdf=SimpleNamespace(queryExecution=lambda: plan))


@pytest.mark.parametrize(
    ("kind", "table", "of_rows", "by"),
    [
        ("LogicalRelation", iceberg_log.OF_SPARK, iceberg_log.OF_ROWS, "LogicalRelation"),
        ("DataSourceV2Relation", "com.example.Table", iceberg_log.OF_ROWS, "com.example.Table"),
        ("DataSourceV2Relation", iceberg_log.OF_SPARK, "org.apache.iceberg.AllFilesTable", iceberg_log.OF_SPARK),
    ],
)
def test_a_relation_that_is_not_icebergs_of_rows_is_refused(
    kind: str, table: str, of_rows: str, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = session()
    monkeypatch.setattr(spark, "table", lambda name: relation(kind, table, of_rows))
    lake = described(spark, TABLE).lake
    assert lake is not None and lake.problem == f"its log cannot be read: Spark reads it by {by}"
