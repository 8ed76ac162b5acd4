"""Real servers. Each is started once, by the worker that runs its tests; these are skipped if it cannot be had."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

import pytest

from tests.servers import containers, ldap, thriftserver
from tests.servers import hive2 as hive2_server
from tests.servers import hive4 as hive4_server
from tests.servers import metastore2 as metastore2_server
from tests.servers import metastore4 as metastore4_server
from tests.servers.hiveserver import READ, HiveServer
from tests.servers.jars import Unavailable
from tests.servers.metastore import Metastore

T = TypeVar("T")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table of what Hive read through result files, one line a server, table and encoding."""
    properties = [pair for report in terminalreporter.getreports("passed") for pair in report.user_properties]
    rows = [row for name, found in properties if name == READ for row in found]
    if rows:
        terminalreporter.section("rows of a full scan, splits read of all when a split is")
        lines = [list(rows[0]), *(list(row.values()) for row in rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            terminalreporter.line("  ".join(map(str.ljust, line, widths)).rstrip())


@contextlib.contextmanager
def started(server: AbstractContextManager[T]) -> Iterator[T]:
    """Start a server and end it; the tests that ask for it are skipped where it is Unavailable."""
    with contextlib.ExitStack() as stack:
        try:
            running = stack.enter_context(server)
        except Unavailable as e:
            pytest.skip(str(e))
        yield running


@pytest.fixture(scope="session")
def hive2(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveServer]:
    """HiveServer2 2.3.10 (MapReduce)."""
    folder, docker = tmp_path_factory.mktemp("hive2"), pytestconfig.getoption("docker")
    with started(containers.hive2(folder.parent) if docker else hive2_server.serving(folder)) as server:
        yield server


@pytest.fixture(scope="session")
def hive2_of_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveServer]:
    """HiveServer2 2.3.10 that asks a directory who may come in; its users are in the xdist_group "ldap"."""
    folder = tmp_path_factory.mktemp("hive2_of_users")
    with started(ldap.serving(folder / "ldap")) as settings, started(hive2_server.serving(folder, settings)) as server:
        yield server


@pytest.fixture
def hive2_database(hive2: HiveServer) -> Iterator[str]:
    """The name of a new database of `hive2`, dropped with all its tables after the test."""
    with hive2.new_database() as name:
        yield name


@pytest.fixture(scope="session")
def metastore2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metastore]:
    """Hive's metastore 2.3."""
    with started(metastore2_server.serving(tmp_path_factory.mktemp("metastore2"))) as server:
        yield server


@pytest.fixture(scope="session")
def metastore4(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metastore]:
    """Hive's metastore 4.0.1; its users are in the xdist_group "hive4"."""
    folder, docker = tmp_path_factory.mktemp("metastore4"), pytestconfig.getoption("docker")
    with started(containers.metastore(folder.parent) if docker else metastore4_server.serving(folder)) as server:
        yield server


@pytest.fixture(scope="session")
def hive4(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory, metastore4: Metastore
) -> Iterator[HiveServer]:
    """HiveServer2 4.0.1 (Tez) on `metastore4`."""
    folder, docker = tmp_path_factory.mktemp("hive4"), pytestconfig.getoption("docker")
    with started(containers.hive4(folder.parent) if docker else hive4_server.serving(folder, metastore4)) as server:
        yield server


@pytest.fixture
def hive4_database(hive4: HiveServer) -> Iterator[str]:
    """The name of a new database of `hive4`, dropped with all its tables after the test."""
    with hive4.new_database() as name:
        yield name


@pytest.fixture(scope="session")
def thrift_server(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveServer]:
    """Spark's Thrift Server."""
    folder, docker = tmp_path_factory.mktemp("thrift_server"), pytestconfig.getoption("docker")
    with started(containers.thrift_server(folder.parent) if docker else thriftserver.serving(folder)) as server:
        yield server


@pytest.fixture
def thrift_server_database(thrift_server: HiveServer) -> Iterator[str]:
    """The name of a new database of `thrift_server`, dropped with all its tables after the test."""
    with thrift_server.new_database() as name:
        yield name
