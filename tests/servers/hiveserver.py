"""A running server that speaks HiveServer2's protocol, as the tests see it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import thrift_sasl
from pyhive import hive
from pyhive.exc import OperationalError
from thrift.transport import TSocket

log = logging.getLogger(__name__)
READ = "splits that the reader of result files read"  # the property of a test under which the summary finds them
SECONDS = 300  # until a call that gets no answer fails: a server that lacks a class does not always say so


@dataclass(frozen=True)
class HiveServer:
    """Where a server listens (auth NONE), the folder of its databases, its version, and how long it may take."""

    host: str
    port: int
    warehouse: Path
    version: str
    seconds: float = SECONDS

    def connect(self, database: str = "default", *, username: str = "hive", **configuration: str) -> Any:
        """A PyHive connection, its session configured as told (`**{"hive.x": "1"}`)."""
        socket = TSocket.TSocket(self.host, self.port)
        socket.setTimeout(self.seconds * 1000)

        def sasl() -> Any:
            return hive.get_installed_sasl(self.host, "PLAIN", username=username, password="x")

        transport = thrift_sasl.TSaslClientTransport(sasl, "PLAIN", socket)
        return hive.connect(thrift_transport=transport, database=database, configuration=configuration)

    @contextlib.contextmanager
    def new_database(self) -> Iterator[str]:
        """The name of a new database, dropped with all its tables when the block ends."""
        name = f"t_{uuid4().hex[:12]}"
        with contextlib.closing(self.connect()) as connection:
            run(connection, f"CREATE DATABASE {name}")
            try:
                yield name
            finally:
                run(connection, f"DROP DATABASE {name} CASCADE")


class Refused(Exception):
    """The server's answer was an error; the message is the server's, without its stack traces."""


class JobFailed(Refused):
    """A MapReduce job failed, for a reason that only the server's log tells."""


def run(connection: Any, statement: str, *, tries: int = 2) -> list[tuple[Any, ...]]:
    """The rows of a statement; none where it has none. Raises Refused.

    Hive 2's own runner of jobs, on a busy machine, was seen to fail one that it finished the next time.
    """
    try:
        return _run(connection, statement)
    except JobFailed as e:
        if tries == 1:
            raise
        log.warning("tried again: %s", e)
        return run(connection, statement, tries=tries - 1)


def _run(connection: Any, statement: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(connection.cursor()) as cursor:
        try:
            cursor.execute(statement)
        except OperationalError as e:
            said = e.args[0].status.errorMessage
            raise (JobFailed if "MapRedTask" in said else Refused)(f"{said}: {statement}") from None
        return cursor.fetchall() if cursor.description else []
