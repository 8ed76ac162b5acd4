"""Index tables in a database of their own: statements in both dialects, and what drops a database or a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

import hive_bitmap
from hive_bitmap.core.index.definition import INDEX_DATABASE, POINTER
from hive_bitmap.core.stores import local_path
from hive_bitmap.errors import DatabaseNotFound, Unsupported
from hive_bitmap.spark.metastore import alter_table, metastore
from hive_bitmap.spark.registry import catalog
from tests.asking import require_alike, under
from tests.spark.maintaining.life import flat_table, generations, live, require_right, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Run = Callable[["SparkSession", str], "DataFrame"]
COUNT = "SELECT count(*) FROM flat WHERE k = 3"


def in_plain_spark(spark: SparkSession, text: str) -> DataFrame:
    hive_bitmap.enable(spark)
    return spark.sql(text)


@pytest.fixture(params=[in_plain_spark, hive_bitmap.sql], ids=["plain", "ours"])
def run(request: pytest.FixtureRequest) -> Run:
    found: Run = request.param
    return found


@pytest.fixture
def apart(spark: SparkSession, database: str) -> Iterator[str]:
    """The name of the database in which this session creates index tables."""
    name = f"{database}_x"
    spark.sql(f"CREATE DATABASE {name}")
    with under(spark, {INDEX_DATABASE: name}):
        yield name
    hive_bitmap.disable(spark)
    spark.sql(f"DROP DATABASE IF EXISTS {name} CASCADE")


def tables(spark: SparkSession, database: str) -> list[str]:
    return sorted(row.tableName for row in spark.sql(f"SHOW TABLES IN {database}").collect() if not row.isTemporary)


def indexes(spark: SparkSession, text: str, column: int) -> list[str]:
    return [row[column] for row in hive_bitmap.sql(spark, text).collect()]


@pytest.mark.contract
def test_the_life_of_indexes_in_another_database(
    spark: SparkSession, database: str, apart: str, tmp_path: Path, run: Run
) -> None:
    flat_table(spark, tmp_path / "t")
    run(spark, "CREATE INDEX i ON TABLE flat (k) AS 'BITMAP'")
    run(spark, "CREATE INDEX j USING bitmap ON flat (id)")
    run(spark, f"CREATE INDEX l ON TABLE flat (k, id) AS 'COMPACT' IN TABLE {apart}.z_own TBLPROPERTIES ('of'='it')")
    assert tables(spark, database) == ["flat"]
    own = [f"{database}__flat_i__", f"{database}__flat_j__", "z_own"]
    assert tables(spark, apart) == own
    assert indexes(spark, "SHOW INDEX ON flat", 3) == [f"{apart}.{name}" for name in own]
    assert metastore.describe(spark, f"{apart}.z_own").properties["of"] == "it"
    assert indexes(spark, "SHOW INDEX", 0) == ["i", "j", "l"]
    spark.catalog.setCurrentDatabase(apart)
    assert indexes(spark, "SHOW INDEX", 2) == [f"spark_catalog.{database}.flat"] * 3
    assert len(hive_bitmap.show(spark)) == 3
    spark.catalog.setCurrentDatabase(database)
    require_right(spark, "flat")
    require_alike(spark, COUNT, "index only", "blocks", "rows")
    write(tmp_path / "t", 1, first=7)
    run(spark, "REFRESH INDEX i ON flat")
    run(spark, "UPDATE INDEX j")
    run(spark, "ALTER INDEX l ON flat REBUILD")
    run(spark, "ALTER INDEX i ON flat SET IDXPROPERTIES ('encoding'='ewah')")
    run(spark, "ALTER INDEX i ON flat REBUILD")
    run(spark, "ALTER INDEX j RENAME TO m")
    assert [(one.fresh, one.problem) for one in hive_bitmap.show(spark, "flat")] == [(3, "")] * 3
    require_right(spark, "flat")
    run(spark, "DROP INDEX l ON flat")
    hive_bitmap.enable(spark)
    spark.sql("ALTER TABLE flat RENAME TO new")
    assert tables(spark, apart) == [f"{database}__new_i__", f"{database}__new_m__"]
    assert [one.problem for one in hive_bitmap.show(spark, "new")] == ["", ""]
    require_right(spark, "new")
    run(spark, "DROP TABLE new")
    assert tables(spark, database) == tables(spark, apart) == generations(spark, apart) == []


@pytest.mark.contract
def test_a_database_goes_with_its_indexes_in_another(
    spark: SparkSession, database: str, apart: str, tmp_path: Path, run: Run
) -> None:
    name = f"{database}_b"
    spark.sql(f"CREATE DATABASE {name}")
    spark.catalog.setCurrentDatabase(name)
    flat_table(spark, tmp_path / "t")
    run(spark, f"CREATE INDEX i ON TABLE flat (k) AS 'BITMAP' LOCATION '{tmp_path}/root'")
    run(spark, "CREATE INDEX j ON TABLE flat (id) AS 'BITMAP'")
    spark.catalog.setCurrentDatabase(database)
    flat_table(spark, tmp_path / "u")
    run(spark, "CREATE INDEX stays ON TABLE flat (k) AS 'BITMAP'")
    run(spark, f"DROP DATABASE {name} CASCADE")
    assert tables(spark, apart) == [f"{database}__flat_stays__"]
    assert not (tmp_path / "root").exists() and generations(spark, apart) == live(spark, "flat")
    require_right(spark, "flat")


@pytest.mark.contract
def test_an_index_database_goes_and_the_tables_stay(
    spark: SparkSession, database: str, apart: str, tmp_path: Path, run: Run
) -> None:
    flat_table(spark, tmp_path / "t")
    run(spark, f"CREATE INDEX i ON TABLE flat (k) AS 'BITMAP' LOCATION '{tmp_path}/root'")
    run(spark, "CREATE INDEX j ON TABLE flat (id) AS 'BITMAP'")
    with pytest.raises(PySparkException):
        run(spark, f"DROP DATABASE {apart}")
    assert [one.problem for one in hive_bitmap.show(spark, "flat")] == ["", ""]
    run(spark, f"DROP DATABASE {apart} CASCADE")
    assert not (tmp_path / "root").exists() and (tmp_path / "t").exists()
    assert hive_bitmap.show(spark, "flat") == []
    assert POINTER not in metastore.describe(spark, "flat").properties
    hive_bitmap.enable(spark)
    assert spark.sql(COUNT).collect()[0][0] == hive_bitmap.count(spark, "flat", "k = 3")
    with pytest.raises((DatabaseNotFound, PySparkException), match=f"no database '{apart}'"):
        run(spark, "CREATE INDEX i ON TABLE flat (k) AS 'BITMAP'")


def test_an_index_database_that_others_drop_costs_no_answer(
    spark: SparkSession, database: str, apart: str, tmp_path: Path
) -> None:
    """They leave the pointer, and the folder that lies elsewhere."""
    flat_table(spark, tmp_path / "t")
    hive_bitmap.build(spark, "flat", ["k"], location=str(tmp_path / "root"))
    require_right(spark, "flat")
    alter_table.drop_database(spark, apart, if_exists=False)
    catalog.clear_caches()
    hive_bitmap.enable(spark)
    assert hive_bitmap.show(spark, "flat") == []
    require_right(spark, "flat")
    [left] = hive_bitmap.clean(spark, location=str(tmp_path / "root"), grace_seconds=0)
    assert left.why == f"index k on {database}.flat was dropped" and not (tmp_path / "root").exists()
    spark.sql("DROP TABLE flat")
    assert tables(spark, database) == []


def test_an_index_table_is_dropped_as_a_table_only_if_its_table_has_lost_it(
    spark: SparkSession, database: str, apart: str, tmp_path: Path, run: Run
) -> None:
    flat_table(spark, tmp_path / "t")
    run(spark, "CREATE INDEX i ON TABLE flat (k) AS 'BITMAP'")
    root = Path(local_path(hive_bitmap.show(spark, "flat")[0].definition.root))
    name = f"{apart}.{database}__flat_i__"
    with pytest.raises((Unsupported, PySparkException), match="drop it with DROP INDEX"):
        run(spark, f"DROP TABLE {name}")
    alter_table.set_properties(spark, metastore.describe(spark, "flat"), {}, [POINTER])
    catalog.clear_caches()
    with pytest.raises((hive_bitmap.errors.AlreadyExists, PySparkException), match=f"or DROP TABLE {name}"):
        run(spark, "CREATE INDEX i ON TABLE flat (k) AS 'BITMAP'")
    run(spark, f"DROP TABLE {name}")
    assert tables(spark, apart) == [] and root.exists(), "it is not trusted: clean finds the folder"
    spark.catalog.setCurrentDatabase(apart)
    [left] = hive_bitmap.clean(spark, grace_seconds=0)
    assert left.why == f"index i on {database}.flat was dropped" and not root.exists()
    spark.catalog.setCurrentDatabase(database)
    run(spark, "CREATE INDEX i ON TABLE flat (k) AS 'BITMAP'")
    require_right(spark, "flat")


def test_no_other_catalog_holds_an_index_table(spark: SparkSession, apart: str, tmp_path: Path) -> None:
    flat_table(spark, tmp_path / "t")
    with pytest.raises(Unsupported, match=r"index table lake\.d\.x must be in spark_catalog: leave out lake"):
        hive_bitmap.sql(spark, "CREATE INDEX i ON TABLE flat (k) AS 'BITMAP' IN TABLE lake.d.x")
    assert hive_bitmap.show(spark, "flat") == []
