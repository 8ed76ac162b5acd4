"""One Spark with the real extensions of Delta and Iceberg, as `make lake` runs it, and a session for each of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

import hive_bitmap
from hive_bitmap.spark.session import session
from tests.servers import jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTENSIONS = (
    "io.delta.sql.DeltaSparkSessionExtension",
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
)
NONE = "none"  # in place of a version of Iceberg: it is not released for the PySpark that runs
DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
ICEBERG_CATALOG = "org.apache.iceberg.spark.SparkSessionCatalog"
SESSION_CATALOG = "spark.sql.catalog.spark_catalog"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    """A session whose own catalog is Delta's. Without the jars these tests fail: nothing else tests what they do."""
    groups = {"io.delta:": "--delta", "org.apache.iceberg:": "--iceberg"}
    versions = {group: pytestconfig.getoption(option) for group, option in groups.items()}
    wanted = [_in_version(one, versions) for one in jars.listed("lake") if _given(one, versions) != NONE]
    folder = jars.resolve("lake", wanted)
    conf = {
        "spark.jars": ",".join(str(path) for path in sorted(folder.glob("*.jar"))),
        "spark.sql.extensions": ",".join(EXTENSIONS[: 1 if versions["org.apache.iceberg:"] == NONE else 2]),
        SESSION_CATALOG: DELTA_CATALOG,
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",  # of the log, 50 by default
        "parquet.block.size": str(1 << 14),  # Delta takes no options of a writer
        # a metastore compares columns by their places, which Iceberg's change
        "spark.hadoop.hive.metastore.disallow.incompatible.col.type.changes": "false",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(tmp_path_factory.mktemp("iceberg")),
        "spark.hadoop.iceberg.engine.hive.lock-enabled": "false",  # an embedded metastore has no locks
        "spark.sql.ui.explainMode": "simple",
        "spark.hive_bitmap.planning_seconds": "60",  # a busy machine plans all the same
        "spark.hadoop.hive.warehouse.subdir.inherit.perms": "false",
    }
    running = session(tmp_path_factory.mktemp("warehouse"), app_name="hive_bitmap lake", master="local[2]", conf=conf)
    hive_bitmap.disable(running)
    yield running
    running.stop()


def _in_version(listed: str, versions: Mapping[str, str]) -> str:
    """The coordinates of a jar for the PySpark that runs, in the version that is given for its group, or as listed."""
    release = ".".join(pyspark.__version__.split(".")[:2])
    artifact, _, version = re.sub(r"(?<=[-_])4\.\d+(?=_2\.13)", release, listed).rpartition(":")
    return f"{artifact}:{_given(listed, versions) or version}"


def _given(listed: str, versions: Mapping[str, str]) -> str:
    return next((given for group, given in versions.items() if listed.startswith(group)), "")


@pytest.fixture(scope="session")
def iceberg(spark: SparkSession) -> SparkSession:
    """Another session of the same Spark, whose own catalog is Iceberg's."""
    return _with_session_catalog(spark, type="hive")


@pytest.fixture(scope="session")
def iceberg_of_folders(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """The same, of a kind that keeps its tables in folders and not in the metastore."""
    return _with_session_catalog(spark, type="hadoop", warehouse=str(tmp_path_factory.mktemp("own")))


def _with_session_catalog(spark: SparkSession, **settings: str) -> SparkSession:
    found = spark.newSession()
    found.conf.set(SESSION_CATALOG, ICEBERG_CATALOG)
    for name, value in settings.items():
        found.conf.set(f"{SESSION_CATALOG}.{name}", value)
    sessions: Any = spark._jvm.org.apache.spark.sql.classic.SparkSession  # type: ignore[union-attr]
    jvm: Any = found._jsparkSession
    sessions.setActiveSession(jvm)  # whose settings say which catalog is loaded, once for a session
    assert jvm.sessionState().catalogManager().v2SessionCatalog().getClass().getName() == ICEBERG_CATALOG
    return found


@pytest.fixture
def iceberg_table(request: pytest.FixtureRequest, iceberg: SparkSession, database: str) -> str:
    """The name of a table to make: in the session's own catalog, or as the parameter says in the catalog `lake`."""
    iceberg.catalog.setCurrentDatabase(database)
    catalog = getattr(request, "param", "spark_catalog")
    if catalog != "spark_catalog":
        iceberg.sql(f"CREATE DATABASE {catalog}.{database}")
    return f"{catalog}.{database}.t"
