"""Connect to HiveServer2, and convert its errors to ServerErrors of one sentence."""

from __future__ import annotations

import logging
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from getpass import getuser
from http import HTTPStatus
from http.client import HTTPException
from importlib.util import find_spec
from socket import gaierror
from ssl import SSLCertVerificationError, SSLContext, SSLError, create_default_context
from typing import Any

from hive_bitmap.errors import NotPermitted, ServerError

log = logging.getLogger(__name__)
logging.getLogger("thrift").addHandler(logging.NullHandler())  # thrift logs the errors that it raises
AUTHS = ("NONE", "NOSASL", "LDAP", "CUSTOM", "KERBEROS")
TRANSPORTS = ("binary", "http")
PORT, HTTP_PATH, SECONDS = 10000, "cliservice", 300.0
FETCHED = 500  # rows fetched in one call; each may hold a bitmap
_KERBEROS = ("kerberos", "winkerberos", "sasl")  # PyHive needs one of these packages
_SHOWN = 80  # characters of a statement in an error message
_PERMISSION = re.compile(
    r"permission denied|not authorized|access ?control ?exception|not have (?:the following )?privilege"
    r"|insufficient privilege|no privilege|authorization failed|not permitted|not on the whitelist",
    re.IGNORECASE,
)
_BAD_STATUS = re.compile(r"Bad status: \d+ \(b(['\"])(?P<reason>.*)\1\)")  # a message of thrift_sasl
_PREAMBLE = re.compile(r"^(?:Error while (?:compiling|processing) statement: )?(?:FAILED: )?(?:Execution Error, )?")


@dataclass(frozen=True, kw_only=True)
class Address:
    """The address of a HiveServer2, its transport, and the credentials.

    `seconds` limits the time of each answer. With `ssl`, the server's certificate is verified by the CA certificates in
    `ca_file`; None stands for the CA certificates that this machine trusts.
    """

    host: str
    port: int = PORT
    auth: str = "NONE"
    username: str | None = None
    password: str | None = None
    kerberos_service_name: str = "hive"
    seconds: float = SECONDS
    transport: str = TRANSPORTS[0]
    http_path: str = HTTP_PATH
    ssl: bool = False
    ca_file: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Server:
    """A DB-API connection to HiveServer2 or Spark's Thrift Server.

    `name` identifies the server in error messages.
    """

    def __init__(self, connection: Any, name: str = "HiveServer2") -> None:
        self.connection = connection
        self.name = name

    @cached_property
    def is_spark(self) -> bool:
        """Whether this is Spark's Thrift Server, which has no `dfs` command.

        Unlike Spark, Hive answers the statement SET with a single column.
        """
        with self.result("SET spark.app.name") as (names, _):
            return len(names) > 1

    def rows(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """Run a statement and yield its rows as they arrive; raises ServerError."""
        for batch in self.batches(statement):
            yield from batch

    def batches(self, statement: str) -> Iterator[list[tuple[Any, ...]]]:
        """Run a statement and yield lists of 1 to FETCHED rows; raises ServerError."""
        with self.result(statement) as (_, batches):
            yield from batches

    @contextmanager
    def result(self, statement: str) -> Iterator[tuple[list[str], Iterator[list[tuple[Any, ...]]]]]:
        """Run a statement, and yield the names of its columns and its rows.

        The rows are in lists, as `batches` yields them. A statement without a result has no columns. Raises
        ServerError.
        """
        log.debug("%s", statement)
        cursor = self.connection.cursor()
        try:
            with as_server_error(self.name, statement):
                cursor.arraysize = FETCHED
                cursor.execute(statement)
                names = [column[0] for column in cursor.description or ()]
            yield names, self._fetched(cursor, statement) if names else iter(())
        finally:
            _close(cursor)

    def _fetched(self, cursor: Any, statement: str) -> Iterator[list[tuple[Any, ...]]]:
        while True:
            with as_server_error(self.name, statement):
                batch = cursor.fetchmany(FETCHED)
            if not batch:
                return
            yield batch

    def all(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement and return all rows of its result; raises ServerError.

        The result should have few rows.
        """
        return list(self.rows(statement))


@contextmanager
def connected(address: Address) -> Iterator[Server]:
    """Connect to a server for the length of the `with` block.

    Raises ServerError if the server is unreachable or denies access.
    """
    try:
        from pyhive import hive
    except ImportError as e:
        raise ServerError(f"{e.name} is not installed: pip install 'hive_bitmap[hive]'") from e
    if address.auth == "KERBEROS" and address.transport == "http":
        raise ServerError("Kerberos over HTTP is not supported: give --auth LDAP, or the server's binary port")
    if address.auth == "KERBEROS" and not any(map(find_spec, _KERBEROS)):
        raise ServerError("Kerberos needs another package: pip install kerberos")
    transport = _transport(address)
    with as_server_error(f"HiveServer2 at {address}", ""):
        connection = hive.connect(thrift_transport=transport, username=address.username)
    try:
        yield Server(connection, f"HiveServer2 at {address}")
    finally:
        _close(connection)


def _transport(address: Address) -> Any:
    """Return a Thrift transport with a timeout.

    PyHive's own transports have no timeout.
    """
    from thrift.transport import TSocket, TSSLSocket, TTransport

    context = _tls(address.ca_file) if address.ssl else None
    if address.transport == "http":
        return _http(address, context)

    class Tls(TSSLSocket.TSSLSocket):  # type: ignore[misc]
        def close(self) -> None:
            if self.handle is not None:  # without a handle, close() would raise, and hide the earlier error
                super().close()

    host_port = (address.host, address.port)
    socket = TSocket.TSocket(*host_port) if context is None else Tls(*host_port, ssl_context=context)
    socket.setTimeout(address.seconds * 1000)
    if address.auth == "NOSASL":
        return TTransport.TBufferedTransport(socket)
    import thrift_sasl

    mechanism = "GSSAPI" if address.auth == "KERBEROS" else "PLAIN"
    return thrift_sasl.TSaslClientTransport(_sasl(address, mechanism), mechanism, socket)


def _tls(ca_file: str | None) -> SSLContext:
    try:
        return create_default_context(cafile=ca_file)
    except SSLError as e:
        raise ServerError(f"{ca_file} does not contain a certificate in PEM format") from e


def _http(address: Address, context: SSLContext | None) -> Any:
    """Return a Thrift transport over HTTP.

    The transport sends user and password with each request. `context` is the TLS context for HTTPS; None for plain
    HTTP.
    """
    from thrift.transport import THttpClient, TTransport

    class Checked(THttpClient.THttpClient):  # type: ignore[misc]
        def flush(self) -> None:
            super().flush()
            if self.code != HTTPStatus.OK:
                raise TTransport.TTransportException(message=f"HTTP status {self.code} {self.message}".rstrip())

    host = f"[{address.host}]" if ":" in address.host else address.host
    scheme = "http" if context is None else "https"
    url = f"{scheme}://{host}:{address.port}/{address.http_path.strip('/')}"
    transport = Checked(url, ssl_context=context)
    transport.setTimeout(address.seconds * 1000)
    user = f"{address.username or getuser()}:{address.password or 'x'}"  # NONE accepts any password but an empty one
    transport.setCustomHeaders({"Authorization": f"Basic {b64encode(user.encode()).decode()}"})
    return transport


def _sasl(address: Address, mechanism: str) -> Callable[[], Any]:
    from pyhive.hive import get_installed_sasl

    def client() -> Any:
        return get_installed_sasl(
            host=address.host,
            sasl_auth=mechanism,
            service=address.kerberos_service_name if mechanism == "GSSAPI" else None,
            username=address.username or getuser(),
            password=address.password or "x",  # NONE accepts any password but an empty one
        )

    return client


def _close(opened: Any) -> None:
    """Close a cursor or connection; log errors instead of raising them.

    The cause of a failed close has usually raised an error before.
    """
    try:
        opened.close()
    except Exception as e:  # noqa: BLE001 - drivers raise errors of any class
        log.debug("closing: %s", e)


@contextmanager
def as_server_error(server: str, statement: str) -> Iterator[None]:
    """Convert errors of the DB-API, Thrift and SASL to ServerError.

    `server` names the server in messages. `statement` is the running statement; "" while a session is opened.
    """
    try:
        yield
    except TimeoutError as e:
        raise ServerError(_late(server, statement)) from e
    except Exception as e:
        kinds = {kind.__name__ for kind in type(e).__mro__}
        if "Error" in kinds:  # the base class of errors in PEP 249
            raise _refusal(server, statement, e) from e
        if kinds & {"TException", "OSError", "AssertionError", "HTTPException"}:
            raise ServerError(_broken(server, statement, e)) from e
        if statement:
            raise
        raise ServerError(f"{server} rejected the login: {e}; check --auth and --username") from e


def _refusal(server: str, statement: str, error: Exception) -> ServerError:
    status = getattr(error.args[0] if error.args else None, "status", None)
    text = str(getattr(status, "errorMessage", None) or error)
    reason = " ".join(_PREAMBLE.sub("", text).split("\n")[0].split())
    message = f"{reason}: {_shown(statement)}" if statement else reason
    if _PERMISSION.search(text):
        return NotPermitted(f"{server} does not permit this: {message}; ask its administrator, or check --username")
    return ServerError(f"{server} rejected: {message}" if statement else f"{server} rejected the session: {message}")


def _broken(server: str, statement: str, error: Exception) -> str:
    text = str(getattr(error, "message", None) or error)
    cause = getattr(error, "inner", None) or error
    if re.search("timed? ?out", text, re.IGNORECASE):
        return _late(server, statement)
    if statement:
        return f"{server} broke the connection ({text}) at: {_shown(statement)}; see its log"
    if isinstance(cause, SSLCertVerificationError):
        return f"{server} has a certificate that is not trusted ({cause.verify_message.rstrip('.')}): check --ca-file"
    if isinstance(cause, SSLError):
        why = getattr(cause, "reason", None) or cause
        return f"{server} does not speak TLS ({why}): leave out --ssl, or check the port"
    if status := re.fullmatch(r"HTTP status (\d+.*)", text):
        why = "this user or password" if status[1].startswith("401") else "our request"
        return (
            f"{server} does not accept {why} (HTTP {status[1]}): check --auth, --username, --transport and --http-path"
        )
    if isinstance(cause, HTTPException):
        return f"{server} does not speak HTTP: check --transport and --ssl"
    if isinstance(cause, gaierror):
        return f"{server} cannot be reached: there is no host of this name"
    if "could not connect" in text.lower() or isinstance(error, ConnectionRefusedError):
        return f"{server} cannot be reached: is it running, and is this its Thrift port (hive.server2.thrift.port)?"
    if refused := _BAD_STATUS.search(text):
        return f"{server} does not accept this user or password ({refused['reason']}): check --auth and --username"
    if isinstance(error, AssertionError):
        return f"{server} is too old: Hive 0.13 or newer is needed ({text})"
    return f"{server} closed the connection while the session was opened ({text}): check --auth, --transport and --ssl"


def _late(server: str, statement: str) -> str:
    if statement:
        return f"{server} did not answer in time to: {_shown(statement)}; --timeout sets another limit"
    return (
        f"{server} did not answer in time when the session was opened: check that this is its Thrift port, and check "
        "--auth, --transport and --ssl; --timeout sets another limit"
    )


def _shown(statement: str) -> str:
    text = " ".join(statement.split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 2] + ".."
