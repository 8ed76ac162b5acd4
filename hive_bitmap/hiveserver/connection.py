"""A connection to HiveServer2, and what goes wrong on it, told in one sentence."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from hive_bitmap.errors import NotPermitted, ServerError

log = logging.getLogger(__name__)
logging.getLogger("thrift").addHandler(logging.NullHandler())  # what it logs, it raises as well
AUTHS = ("NONE", "NOSASL", "LDAP", "CUSTOM", "KERBEROS")
PORT, SECONDS = 10000, 300.0
FETCHED = 500  # rows a call; each may hold a bitmap
_KERBEROS = ("kerberos", "winkerberos", "sasl")  # any of them, as PyHive takes them
_SHOWN = 80  # characters of a statement in an error
_PERMISSION = re.compile(
    r"permission denied|not authorized|access ?control ?exception|not have (?:the following )?privilege"
    r"|insufficient privilege|no privilege|authorization failed|not permitted|not on the whitelist",
    re.IGNORECASE,
)
_BAD_STATUS = re.compile(r"Bad status: \d+ \(b(['\"])(?P<said>.*)\1\)")  # of thrift_sasl
_PREAMBLE = re.compile(r"^(?:Error while (?:compiling|processing) statement: )?(?:FAILED: )?(?:Execution Error, )?")


@dataclass(frozen=True)
class Address:
    """Where HiveServer2 listens, and as whom to come. `seconds` is how long any one answer may take."""

    host: str
    port: int = PORT
    auth: str = "NONE"
    username: str | None = None
    password: str | None = None
    kerberos_service_name: str = "hive"
    seconds: float = SECONDS

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Server:
    """A DB-API connection to a server of Hive's SQL; `name` is what errors call it."""

    def __init__(self, connection: Any, name: str = "HiveServer2") -> None:
        self.connection = connection
        self.name = name

    @cached_property
    def is_spark(self) -> bool:
        """Whether it is Spark's Thrift Server, which has no `dfs`; Hive answers SET in one column."""
        with self.result("SET spark.app.name") as (names, _):
            return len(names) > 1

    def rows(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a statement as they arrive. Raises ServerError."""
        for some in self.batches(statement):
            yield from some

    def batches(self, statement: str) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of a statement, up to FETCHED at a time, never none. Raises ServerError."""
        with self.result(statement) as (_, batches):
            yield from batches

    @contextmanager
    def result(self, statement: str) -> Iterator[tuple[list[str], Iterator[list[tuple[Any, ...]]]]]:
        """The names of the columns, none where there is no result, and the rows as in `batches`. Raises ServerError."""
        log.debug("%s", statement)
        cursor = self.connection.cursor()
        try:
            with _told(self.name, statement):
                cursor.arraysize = FETCHED
                cursor.execute(statement)
                names = [column[0] for column in cursor.description or ()]
            yield names, self._fetched(cursor, statement) if names else iter(())
        finally:
            _close(cursor)

    def _fetched(self, cursor: Any, statement: str) -> Iterator[list[tuple[Any, ...]]]:
        while True:
            with _told(self.name, statement):
                some = cursor.fetchmany(FETCHED)
            if not some:
                return
            yield some

    def all(self, statement: str) -> list[tuple[Any, ...]]:
        """All rows of a statement, for statements that have few. Raises ServerError."""
        return list(self.rows(statement))


@contextmanager
def connected(address: Address) -> Iterator[Server]:
    """A server, until the end of the block. Raises ServerError where it cannot be reached or does not let us in."""
    try:
        from pyhive import hive
    except ImportError as e:
        raise ServerError(f"{e.name} is not installed: pip install 'hive_bitmap[hive]'") from e
    if address.auth == "KERBEROS" and not any(map(find_spec, _KERBEROS)):
        raise ServerError("for Kerberos another package is needed: pip install kerberos")
    with _told(f"HiveServer2 at {address}", ""):
        connection = hive.connect(thrift_transport=_transport(address), username=address.username)
    try:
        yield Server(connection, f"HiveServer2 at {address}")
    finally:
        _close(connection)


def _transport(address: Address) -> Any:
    """PyHive has no time-outs of its own, but takes a transport that has."""
    from thrift.transport import TSocket, TTransport

    socket = TSocket.TSocket(address.host, address.port)
    socket.setTimeout(address.seconds * 1000)
    if address.auth == "NOSASL":
        return TTransport.TBufferedTransport(socket)
    import thrift_sasl

    mechanism = "GSSAPI" if address.auth == "KERBEROS" else "PLAIN"
    return thrift_sasl.TSaslClientTransport(_sasl(address, mechanism), mechanism, socket)


def _sasl(address: Address, mechanism: str) -> Callable[[], Any]:
    from getpass import getuser

    from pyhive.hive import get_installed_sasl

    def client() -> Any:
        return get_installed_sasl(
            host=address.host,
            sasl_auth=mechanism,
            service=address.kerberos_service_name if mechanism == "GSSAPI" else None,
            username=address.username or getuser(),
            password=address.password or "x",  # NONE takes any, but not none
        )

    return client


def _close(opened: Any) -> None:
    """Close a cursor or connection. One that is broken cannot be; what broke it was told then."""
    try:
        opened.close()
    except Exception as e:  # noqa: BLE001 - drivers raise what they like
        log.debug("closing: %s", e)


@contextmanager
def _told(server: str, statement: str) -> Iterator[None]:
    """Turn what a DB-API, Thrift and SASL raise into ServerError; an empty statement is the opening of the session."""
    try:
        yield
    except TimeoutError as e:
        raise ServerError(_late(server, statement)) from e
    except Exception as e:
        kinds = {kind.__name__ for kind in type(e).__mro__}
        if "Error" in kinds:  # as PEP 249 has it
            raise _refusal(server, statement, e) from e
        if kinds & {"TException", "OSError", "AssertionError"}:
            raise ServerError(_broken(server, statement, e)) from e
        if statement:
            raise
        raise ServerError(f"{server} did not let us in: {e}; see --auth, --username") from e


def _refusal(server: str, statement: str, error: Exception) -> ServerError:
    status = getattr(error.args[0] if error.args else None, "status", None)
    text = str(getattr(status, "errorMessage", None) or error)
    reason = " ".join(_PREAMBLE.sub("", text).split("\n")[0].split())
    said = f"{reason}: {_shown(statement)}" if statement else reason
    if _PERMISSION.search(text):
        return NotPermitted(f"{server} does not permit this: {said}; ask its administrator, or see --username")
    return ServerError(f"{server} refuses: {said}" if statement else f"{server} refuses a session: {said}")


def _broken(server: str, statement: str, error: Exception) -> str:
    text = str(getattr(error, "message", None) or error)
    if re.search("timed? ?out", text, re.IGNORECASE):
        return _late(server, statement)
    if statement:
        return f"{server} broke the connection ({text}) at: {_shown(statement)}; see its log"
    if "failed to resolve" in text:
        return f"{server} cannot be reached: there is no host of that name"
    if "could not connect" in text.lower():
        return f"{server} cannot be reached: is it running, and is this its Thrift port (hive.server2.thrift.port)?"
    if refused := _BAD_STATUS.search(text):
        return f"{server} does not accept this user or password ({refused['said']}): see --auth and --username"
    if isinstance(error, AssertionError):
        return f"{server} is too old: Hive 0.13 or newer is needed ({text})"
    return f"{server} ended the talk while the session was opened ({text}): is --auth that of the server?"


def _late(server: str, statement: str) -> str:
    what = f" to: {_shown(statement)}" if statement else " when the session was opened"
    return f"{server} gave no answer in time{what}; --timeout sets another limit"


def _shown(statement: str) -> str:
    text = " ".join(statement.split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 2] + ".."
