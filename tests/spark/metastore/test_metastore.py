"""Names of tables, and what is said of those that are not there, by stand-ins for a session and its metastore.

That Spark means the same by the names is for test_names.py, and Iceberg's catalogs are for tests/lake.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import NotFound, Unsupported
from hive_bitmap.spark.metastore import iceberg_log, metastore
from hive_bitmap.spark.metastore.jvm_metastore import JvmMetastore
from hive_bitmap.spark.metastore.sql_metastore import SqlMetastore

ICEBERG, JDBC = "org.apache.iceberg.spark.SparkCatalog", "org.apache.spark.sql.execution.datasources.v2.jdbc.Catalog"


class Session:
    """A session with catalogs `lake`, of Iceberg, and `other`, and tables db.t, db.u, and an index of t."""

    def __init__(self, catalog: str = "spark_catalog", database: str = "DB") -> None:
        settings = {"spark.sql.catalog.lake": ICEBERG, "spark.sql.catalog.other": JDBC}
        self.conf = SimpleNamespace(get=lambda name, default: settings.get(name, default))
        self.catalog = SimpleNamespace(
            currentCatalog=lambda: catalog,
            currentDatabase=lambda: database,
            tableExists=lambda name: name == "global_temp.there",
        )


@dataclass
class Stand:
    """A metastore with these tables."""

    tables: Sequence[Table] = tuple(Table(database="db", name=one, kind="MANAGED") for one in ("t", "u", "db__t_i__"))
    asked: list[Any] = field(default_factory=list)
    for_all: bool = True

    def available(self, spark: Any) -> bool:
        return self.for_all

    def describe(self, spark: Any, database: str, names: Sequence[str], view: str) -> list[Table]:
        self.asked.append((database, list(names), view))
        if database != "db":
            raise AnalysisException("[SCHEMA_NOT_FOUND]")
        return [one for one in self.tables if one.name in names]

    def database_names(self, spark: Any) -> list[str]:
        return ["db", "default"]

    def database_exists(self, spark: Any, database: str) -> bool:
        return database == "db"

    def names_like(self, spark: Any, database: str, pattern: str) -> list[str]:
        return [one.name for one in self.tables if fnmatchcase(one.name, pattern)]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda spark, *given: (name, *given)


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Stand:
    made = Stand()
    monkeypatch.setattr(metastore, "METASTORES", (made,))
    monkeypatch.setattr(metastore.session_settings, "use_stores", lambda spark: made.asked.append("stores"))
    return made


def session(catalog: str = "spark_catalog", database: str = "DB") -> Any:
    return Session(catalog, database)


@pytest.mark.parametrize(
    ("current", "name", "parts"),
    [
        ("spark_catalog", "T", ("", "db", "t")),
        ("spark_catalog", "Sales.T", ("", "sales", "t")),
        ("spark_catalog", "`a.b`.`c d`", ("", "a.b", "c d")),
        ("other", "SPARK_CATALOG.Sales.T", ("", "sales", "t")),
        ("other", "global_temp.T", ("", "global_temp", "t")),
        ("spark_catalog", "lake.Sales.T", ("lake", "Sales", "T")),  # such a catalog may know upper case
        ("lake", "T", ("lake", "DB", "T")),
        ("lake", "Sales.T", ("lake", "Sales", "T")),
        ("lake", "spark_catalog.sales.t", ("", "sales", "t")),
    ],
)
def test_names_have_the_parts_that_spark_reads(current: str, name: str, parts: tuple[str, str, str]) -> None:
    assert metastore.split_name(session(current), name) == parts


@pytest.mark.parametrize(
    ("current", "name", "catalog"),
    [
        ("spark_catalog", "other.db.t", "other"),
        ("spark_catalog", "other.t", "other"),  # the name of a catalog in the place of a database
        ("other", "t", "other"),
        ("other", "db.t", "other"),
        ("spark_catalog", "unknown.db.t", "unknown"),
    ],
)
def test_tables_of_other_catalogs_are_refused(current: str, name: str, catalog: str) -> None:
    with pytest.raises(Unsupported) as raised:
        metastore.split_name(session(current), name)
    assert str(raised.value) == (
        f"table {name} is in catalog '{catalog}', but only tables of spark_catalog and of Iceberg's catalogs "
        "have indexes: to name one, write spark_catalog.database.table"
    )


def test_a_table_of_iceberg_without_a_database_is_refused() -> None:
    with pytest.raises(Unsupported) as raised:
        metastore.split_name(session(), "lake.t")
    assert str(raised.value) == "table lake.t is in no database: write lake.database.table"


def test_the_current_database() -> None:
    assert metastore.current_database(session()) == "db"
    for catalog in ("other", "lake"):
        with pytest.raises(Unsupported, match=f"the current catalog is '{catalog}'.*or USE spark_catalog.database"):
            metastore.current_database(session(catalog))


def test_catalogs_whose_tables_may_have_indexes() -> None:
    spark = session("other")
    assert metastore.is_indexed_catalog(spark, "lake") and not metastore.is_indexed_catalog(spark, "other")


@pytest.mark.parametrize(
    ("name", "view"), [("t", "t"), ("T", "T"), ("db.t", ""), ("spark_catalog.db.t", ""), ("SESSION.t", "t")]
)
def test_a_view_of_the_session_hides_what_is_named_without_a_database(stand: Stand, name: str, view: str) -> None:
    if name.startswith("SESSION"):
        with pytest.raises(NotFound):
            metastore.describe(session(), name)
    else:
        assert metastore.describe(session(), name) == stand.tables[0]
    assert stand.asked[1][2] == view and stand.asked[0] == "stores"


def test_others_are_read_together_with_a_table(stand: Stand) -> None:
    found, others = metastore.describe_with(session(), "t", lambda database, table: [f"{database}__{table}_i__", "x"])
    assert (found, others) == (stand.tables[0], [stand.tables[2]])
    assert stand.asked == ["stores", ("db", ["t", "db__t_i__", "x"], "t")]


def test_what_is_not_there_is_told_with_what_is(stand: Stand) -> None:
    for name, told in (
        ("tt", "no table 'tt' in database db; known: t, u"),  # and not the tables of indexes
        ("dbb.t", "no database 'dbb'; known: db, default; did you mean 'db'?"),
        ("global_temp.x", "no global temporary view 'x'"),
    ):
        with pytest.raises(NotFound) as raised:
            metastore.describe(session(), name)
        assert str(raised.value) == told


def test_another_error_of_a_database_that_is_there_is_not_hidden(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: Any) -> list[Table]:
        raise AnalysisException("[ODD] it fails")

    monkeypatch.setattr(stand, "describe", fails)
    with pytest.raises(AnalysisException, match="it fails"):
        metastore.describe(session(), "t")


def test_a_global_temporary_view(stand: Stand) -> None:
    found = metastore.describe(session("other"), "global_temp.there")
    assert found == Table(database="global_temp", name="there", kind="TEMPORARY") and stand.asked == []


def test_tables_of_icebergs_catalogs(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(database="db", name="t", kind="EXTERNAL", provider="iceberg", catalog="lake")
    known = {("lake", "db", "t"): table, ("lake", "far", "t"): table, ("", "db", "v"): replace(table, catalog="")}
    monkeypatch.setattr(iceberg_log, "table_of_catalog", lambda spark, *name: known.get(name))
    index = lambda database, name: ["db__t_i__"]  # noqa: E731
    assert metastore.describe_with(session(), "lake.db.t", index) == (table, [stand.tables[2]])
    assert metastore.describe_with(session(), "lake.far.t", index) == (table, [])  # no such database in the metastore
    assert metastore.describe_with(session(), "v", index) == (replace(table, catalog=""), [stand.tables[2]])
    with pytest.raises(NotFound, match=r"^no table 'u' in lake.db$"):
        metastore.describe(session(), "lake.db.u")


def test_nothing_is_asked_about_no_tables(stand: Stand) -> None:
    assert metastore.describe_many(session(), "db", []) == [] == [one for one in stand.asked if one != "stores"]
    assert metastore.describe_many(session(), "db", ["u", "x"]) == [stand.tables[1]]


def test_the_first_that_is_available_is_asked(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Stand(for_all=False)
    monkeypatch.setattr(metastore, "METASTORES", (first, stand))
    spark, table = session(), stand.tables[0]
    assert metastore.partitions(spark, table) == ("partitions", table, None)  # type: ignore[comparison-overlap]
    assert stand.asked == ["stores"]  # whose files are read next
    assert metastore.is_cached(spark, "name") == ("is_cached", "name")  # type: ignore[comparison-overlap]
    assert metastore.time_zone(spark) == ("time_zone",)  # type: ignore[comparison-overlap]
    assert metastore.default_parallelism(spark) == ("default_parallelism",)  # type: ignore[comparison-overlap]
    assert stand.asked == ["stores"] and first.asked == []


def test_a_session_of_a_jvm_is_read_through_it_and_any_other_by_sql() -> None:
    for spark, used in ((SimpleNamespace(_jsparkSession="s"), JvmMetastore), (SimpleNamespace(), SqlMetastore)):
        anyone: Any = spark
        assert type(metastore.of(anyone)) is used
