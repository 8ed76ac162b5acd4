"""Real servers, each started once, by the worker that runs its tests; without Java or the jars they are skipped."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

import pytest

from tests.integration.servers import hive2 as hive2_server
from tests.integration.servers.hiveserver import HiveServer
from tests.integration.servers.jars import Unavailable

T = TypeVar("T")


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
def hive2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveServer]:
    """HiveServer2 2.3.10 (MapReduce)."""
    with started(hive2_server.serving(tmp_path_factory.mktemp("hive2"))) as server:
        yield server


@pytest.fixture
def hive2_database(hive2: HiveServer) -> Iterator[str]:
    """The name of a new database of `hive2`, dropped with all its tables after the test."""
    with hive2.new_database() as name:
        yield name
