"""One Spark for the whole run, in a warehouse of its own; a fresh database for each test that asks for one.

With workers (pytest-xdist, as `make test` starts them) each has its own Spark. The tests of a file stay together, and
those of an `xdist_group`: the users of one server.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadGroupScheduling

import hive_bitmap
from hive_bitmap.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer

pytest_plugins = ["tests.lanes", "tests.durations", "tests.servers.fixtures", "tests.spark.fixtures"]
# Tests are over before the better compiler pays: with the quick one alone a young Spark takes half the time of the CPU.
# Alone it would get a code cache that a Spark fills within a minute, and then it compiles the same again and again.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
# Without libhadoop each change of a file's mode is a process: https://github.com/apache/hadoop/blob/rel/release-3.4.1/
# hadoop-common-project/hadoop-common/src/main/java/org/apache/hadoop/fs/RawLocalFileSystem.java (setPermission).
_JAVA_OPTIONS += " -Djdk.lang.Process.launchMechanism=VFORK"
os.environ.setdefault("SPARK_SUBMIT_OPTS", _JAVA_OPTIONS)
# Programs that tests start make no archive of classes in the background, nor start from one.
os.environ.setdefault("HIVE_BITMAP_CLASS_ARCHIVES", "")
# Of the Spark that all tests share: a heap that need not grow first, and a metastore that is lost if the machine dies.
_SHARED = "-XX:MetaspaceSize=512m -Xms1g -Xmn400m -Dderby.system.durability=test"

# How long an example takes says nothing on a machine that does other things as well.
settings.register_profile(
    "no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.load_profile("no clock")

CAMPAIGN = "campaign"  # the property of a test that the summary prints


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--long", type=int, default=0, metavar="N", help="N random tables more than usual, and every way to ask"
    )
    parser.addoption("--seed", type=int, default=0, metavar="S", help="the first seed of random queries")
    parser.addoption("--s3", choices=("moto", "versitygw"), default="moto", help="the server of S3 for tests/stores")
    parser.addoption(
        "--delta", default="", metavar="V", help="the version of Delta for tests/lake, if not the listed one"
    )
    parser.addoption("--iceberg", default="", metavar="V", help="the same of Iceberg; none: without it")
    parser.addoption("--docker", action="store_true", help="use the servers of docker/compose.yaml")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--long"):
        from tests import asking

        asking.every_way = True


class _FilesAndGroups(LoadGroupScheduling):
    def _split_scope(self, nodeid: str) -> str:
        scope = super()._split_scope(nodeid)
        return nodeid.partition("::")[0] if scope == nodeid else scope


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadGroupScheduling:
    return _FilesAndGroups(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that workers end together: servers, then Spark; files of many tests first."""
    if hasattr(config, "workerinput"):
        tests_of_file = Counter(item.path for item in items)
        items.sort(key=lambda item: (_turn(item), -tests_of_file[item.path], item.path))


def _turn(item: pytest.Item) -> int:
    if item.get_closest_marker("xdist_group"):
        return 0
    return 1 if "spark" in getattr(item, "fixturenames", ()) else 2


def pytest_report_header(config: pytest.Config) -> str:
    return f"random tables beyond the usual ones: {config.getoption('--long')} (--long N for more)"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what the campaigns did: the figures for docs/assurance.md."""
    reports = [report for kept in terminalreporter.stats.values() for report in kept if hasattr(report, "when")]
    told = [
        text for report in reports if report.when == "call" for name, text in report.user_properties if name == CAMPAIGN
    ]
    if told:
        terminalreporter.section("campaigns")
        for text in sorted(told):
            terminalreporter.write_line(text)


@pytest.fixture
def tell_of_campaign(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Have the summary of the run say what a campaign did."""
    return lambda text: record_property(CAMPAIGN, text)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Local Spark on two cores with a Derby metastore, as `hive_bitmap.session` makes it."""
    warehouse = tmp_path_factory.mktemp("warehouse")
    conf = {
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "2",
        "spark.hive_bitmap.learn_prices": "false",  # what was asked before must not decide how a query is answered
        "spark.hive_bitmap.planning_seconds": "60",  # nor how busy the machine is
        "spark.sql.ui.explainMode": "simple",  # nobody looks at the plan that Spark prints for its UI
        "spark.hadoop.hive.warehouse.subdir.inherit.perms": "false",  # four processes for each new folder
    }
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_SUBMIT_OPTS", f"{os.environ['SPARK_SUBMIT_OPTS']} {_SHARED}")
        running = session(warehouse, app_name="hive_bitmap tests", master="local[2]", conf=conf)
    hive_bitmap.disable(running)
    _import_classes(running)
    yield running
    running.stop()


def _import_classes(spark: SparkSession) -> None:
    """Give py4j the packages of the classes that PySpark names without, which it else looks for in each of 280 jars."""
    from py4j.java_gateway import java_import

    gateway: Any = spark.sparkContext._gateway
    for name in (
        "org.apache.spark.api.python.PythonUtils",
        "org.apache.spark.api.python.SimplePythonFunction",
        "org.apache.spark.sql.api.python.PythonSQLUtils",
        "org.apache.spark.sql.functions",
    ):
        java_import(gateway.jvm, name)


@pytest.fixture(autouse=True)
def _rule_stays_off(request: pytest.FixtureRequest) -> Iterator[None]:
    """Plain Spark is what most tests compare with: none hands on a session in which indexes serve it, too."""
    yield
    if "spark" in request.fixturenames:
        hive_bitmap.disable(request.getfixturevalue("spark"))


@pytest.fixture
def database(spark: SparkSession) -> Iterator[str]:
    """The name of a new database, current while the test runs."""
    with _new_database(spark) as name:
        yield name


@pytest.fixture(scope="module")
def shared_database(spark: SparkSession) -> Iterator[str]:
    """The same for the tests of a module that change nothing in it; current where they ask for no other."""
    with _new_database(spark) as name:
        yield name


@contextlib.contextmanager
def _new_database(spark: SparkSession) -> Iterator[str]:
    name = f"t_{uuid4().hex[:12]}"
    before = spark.catalog.currentDatabase()
    spark.sql(f"CREATE DATABASE {name}")
    spark.catalog.setCurrentDatabase(name)
    try:
        yield name
    finally:
        spark.catalog.setCurrentDatabase(before)  # nobody else comes to the other one, and to drop it takes a while
