"""Spark with a client for S3, and real stores; a test that asks for `home` runs once in a folder of each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

import hive_bitmap
from hive_bitmap.core.index import lookup, manifest
from hive_bitmap.core.memory_budget import BUDGET
from hive_bitmap.core.stores import file_cache, options
from hive_bitmap.core.stores.options import Options
from hive_bitmap.spark import session_cache
from hive_bitmap.spark.metastore import session_settings
from hive_bitmap.spark.session import session
from tests.servers.fixtures import started
from tests.stores.servers import hdfs as hdfs_server
from tests.stores.servers import proxy as proxy_server
from tests.stores.servers import s3 as s3_server
from tests.stores.servers.proxy import Proxy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUCKET = "warehouse"
SECRET = s3_server.SECRET


@dataclass(frozen=True)
class S3:
    """A server of S3 (its port), and the proxy through which all clients see it."""

    port: int
    proxy: Proxy

    @property
    def settings(self) -> dict[str, str]:
        return {
            "fs.s3a.endpoint": f"http://127.0.0.1:{self.proxy.port}",
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.access.key": s3_server.ACCESS,
            "fs.s3a.secret.key": SECRET,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.attempts.maximum": "3",
            "fs.s3a.retry.limit": "3",
        }


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[S3]:
    serving = s3_server.serving(tmp_path_factory.mktemp("s3"), pytestconfig.getoption("--s3"))
    with started(serving) as port, proxy_server.serving(port) as proxy:
        s3_server.make_bucket(port, BUCKET)
        yield S3(port, proxy)


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with started(hdfs_server.serving(tmp_path_factory.mktemp("hdfs"))) as url:
        yield url


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, s3: S3) -> Iterator[SparkSession]:
    """Spark with a client for S3, its metastore on the local disk."""
    with started(contextlib.nullcontext(s3_server.client_jars())) as jars:
        conf = {
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.extraClassPath": f"{jars}/*",
            "spark.executor.extraClassPath": f"{jars}/*",
            "hive_bitmap.stores.attempts": "3",
            "hive_bitmap.planning_seconds": "60",  # a busy machine plans all the same
            **{f"spark.hadoop.{name}": value for name, value in s3.settings.items()},
        }
        warehouse = tmp_path_factory.mktemp("warehouse")
        running = session(warehouse, app_name="hive_bitmap stores", master="local[2]", conf=conf)
        hive_bitmap.disable(running)  # as after each test
        yield running
        running.stop()


@pytest.fixture(params=["s3", "hdfs"])
def home(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """A new folder of a store, with a database of the same name that lies in it and is current."""
    yield from _home(request, spark)


@pytest.fixture(scope="module", params=["s3", "hdfs"])
def shared_home(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """The same for the tests of a module that change nothing in it; they make it current."""
    yield from _home(request, spark)


def _home(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    name = f"t_{uuid4().hex[:12]}"
    root = f"s3a://{BUCKET}" if request.param == "s3" else request.getfixturevalue("hdfs")
    spark.sql(f"CREATE DATABASE {name} LOCATION '{root}/{name}'")
    spark.catalog.setCurrentDatabase(name)
    yield f"{root}/{name}"
    spark.catalog.setCurrentDatabase("default")
    spark.sql(f"DROP DATABASE {name} CASCADE")


@pytest.fixture(autouse=True)
def _forgotten(request: pytest.FixtureRequest) -> Iterator[None]:
    """Nothing is remembered of what another test has read, and nothing in the way of what the next one asks."""
    if "s3" in request.fixturenames:
        request.addfinalizer(request.getfixturevalue("s3").proxy.reset)
    yield
    forget()


def forget() -> None:
    """Let go of all that is kept of indexes and of sessions."""
    lookup.clear_caches()
    manifest.read.cache_clear()
    file_cache.forget()
    BUDGET.clear("questions")


@contextlib.contextmanager
def reached(settings: Mapping[str, str]) -> Iterator[None]:
    """Reach stores by these settings, without a session."""
    with options.using(Options.of(settings)):
        yield


@pytest.fixture
def fresh_settings(spark: SparkSession) -> Iterator[None]:
    """Settings that a test makes in the session are seen at once, and are gone after it."""
    session_cache.clear(session_settings._options)
    yield
    session_cache.clear(session_settings._options)
