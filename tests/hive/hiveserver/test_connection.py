"""Connections to a HiveServer2: rows in batches, and errors of any layer as one sentence."""

from __future__ import annotations

import contextlib
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from http.client import BadStatusLine
from pathlib import Path
from socket import gaierror
from ssl import SSLCertVerificationError, SSLError

import pytest
from pyhive.exc import OperationalError
from TCLIService.ttypes import TExecuteStatementResp, TStatus, TStatusCode
from thrift.transport.TTransport import TTransportException

from hive_bitmap import cli
from hive_bitmap.errors import NotPermitted, ServerError
from hive_bitmap.hive.hiveserver.connection import FETCHED, Address, Server, as_server_error, connected


def test_rows_of_any_connection_arrive_in_batches() -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        server = Server(connection)
        text = (
            f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {2 * FETCHED}) SELECT i FROM n"
        )
        assert [len(batch) for batch in server.batches(text)] == [FETCHED, FETCHED, 1]
        assert server.all("CREATE TABLE t (a)") == []
        with server.result("SELECT 1 AS one, 2 AS two") as (names, rows):
            assert (names, list(rows)) == (["one", "two"], [[(1, 2)]])
        with pytest.raises(ServerError, match=r"^HiveServer2 rejected: no such table: nix: SELECT [*] FROM nix$"):
            server.all("SELECT * FROM nix")
        with pytest.raises(BrokenPipeError), server.result("SELECT 1"):  # raised by who reads the rows
            raise BrokenPipeError


@contextlib.contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """Open a port whose first connection gets this answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):  # no connection came
                caller, _ = listener.accept()
                with caller:
                    answer(caller)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def refuse_credentials(caller: socket.socket) -> None:
    caller.recv(1 << 16)
    reason = b"Error validating the login"
    caller.sendall(bytes([3]) + len(reason).to_bytes(4, "big") + reason)


def read_until_closed(caller: socket.socket) -> None:
    while caller.recv(1 << 16):
        pass


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (refuse_credentials, r"does not accept this user or password \(Error validating the login\): check --auth and"),
        (
            read_until_closed,
            r"did not answer in time when the session was opened: check that this is its Thrift port, .* --timeout",
        ),
        (
            lambda caller: None,
            r"closed the connection while the session was opened \(.*check --auth, --transport and --ssl",
        ),
    ],
    ids=["credentials", "time", "other"],
)
def test_a_session_that_does_not_come_about(answer: Callable[[socket.socket], None], said: str) -> None:
    with listening(answer) as port, pytest.raises(ServerError, match=rf"HiveServer2 at 127.0.0.1:{port} {said}"):
        connected(Address(host="127.0.0.1", port=port, seconds=0.5)).__enter__()


def test_kerberos_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hive_bitmap.hive.hiveserver.connection._KERBEROS", ("no_such_package",))
    with pytest.raises(ServerError, match=r"^Kerberos needs another package: pip install kerberos$"):
        connected(Address(host="127.0.0.1", port=1, auth="KERBEROS")).__enter__()


def test_a_server_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    assert cli.main(["--hiveserver2", f"127.0.0.1:{port}", "show", "t"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        f"hive-bitmap: HiveServer2 at 127.0.0.1:{port} cannot be reached: is it running, "
        "and is this its Thrift port (hive.server2.thrift.port)?\n"
    )


def refused(message: str) -> OperationalError:
    """What PyHive raises when a server refuses a statement."""
    status = TStatus(statusCode=TStatusCode.ERROR_STATUS, errorMessage=message)
    return OperationalError(TExecuteStatementResp(status=status))


def of_http(text: str) -> TTransportException:
    return TTransportException(message=text)


def told(error: Exception, statement: str) -> ServerError:
    with pytest.raises(ServerError) as raised, as_server_error("HS2", statement):
        raise error
    assert raised.value.__cause__ is error
    return raised.value


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            refused("Error while compiling statement: FAILED: SemanticException [Error 10001]: no table\nat java.."),
            "HS2 rejected: SemanticException [Error 10001]: no table: SELECT 1",
        ),
        (refused("FAILED: Execution Error, return code 2"), "HS2 rejected: return code 2: SELECT 1"),
        (sqlite3.OperationalError("no such   table:\tt"), "HS2 rejected: no such table: t: SELECT 1"),
        (TimeoutError(), "HS2 did not answer in time to: SELECT 1; --timeout sets another limit"),
        (of_http("read timed out"), "HS2 did not answer in time to: SELECT 1; --timeout sets another limit"),
        (of_http("EOF"), "HS2 broke the connection (EOF) at: SELECT 1; see its log"),
        (BrokenPipeError("pipe"), "HS2 broke the connection (pipe) at: SELECT 1; see its log"),
    ],
)
def test_an_error_of_a_statement_in_a_sentence(error: Exception, said: str) -> None:
    found = told(error, " SELECT\n 1 ")
    assert str(found) == said and not isinstance(found, NotPermitted)


@pytest.mark.parametrize(
    "message",
    [
        "Permission denied: user=ann, access=READ_EXECUTE",
        "Error: Insufficient privileges to execute show databases",
        "org.apache.hadoop.security.AccessControlException: no",
        "Permission denied: Principal [name=ann] does not have following privileges for operation QUERY",
        "dfs is not on the whitelist",
    ],
)
def test_what_is_not_permitted_is_an_error_of_its_own(message: str) -> None:
    found = told(refused(message), "SELECT 1")
    assert isinstance(found, NotPermitted)
    assert str(found).startswith("HS2 does not permit this: ")
    assert str(found).endswith(": SELECT 1; ask its administrator, or check --username")


def of(inner: Exception) -> TTransportException:
    """Thrift's error about another one."""
    return TTransportException(message="Could not connect to any of [('h', 1)]", inner=inner)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (refused("no session"), "rejected the session: no session"),
        (
            of_http("HTTP status 401 Unauthorized"),
            "does not accept this user or password (HTTP 401 Unauthorized): check",
        ),
        (
            of_http("HTTP status 405"),
            "does not accept our request (HTTP 405): check --auth, --username, --transport and",
        ),
        (of(gaierror("no")), "cannot be reached: there is no host of this name"),
        (of(ConnectionRefusedError()), "cannot be reached: is it running, and is this its Thrift port"),
        (ConnectionRefusedError(), "cannot be reached: is it running"),
        (BadStatusLine("x"), "does not speak HTTP: check --transport and --ssl"),
        (of(SSLError(1, "[SSL] wrong version")), "does not speak TLS ("),
        (of_http("Bad status: 3 (b'Error validating the login')"), "does not accept this user or password (Error val"),
        (AssertionError("no such function"), "is too old: Hive 0.13 or newer is needed (no such function)"),
        (ValueError("anything"), "rejected the login: anything; check --auth and --username"),
        (
            of_http("EOF"),
            "closed the connection while the session was opened (EOF): check --auth, --transport and --ssl",
        ),
        (TimeoutError(), "did not answer in time when the session was opened: check that this is its Thrift port"),
    ],
)
def test_an_error_of_a_session_says_what_to_look_at(error: Exception, said: str) -> None:
    assert str(told(error, "")).startswith(f"HS2 {said}")


def test_a_certificate_that_is_not_trusted() -> None:
    error = SSLCertVerificationError()
    error.verify_message = "self-signed certificate."
    assert str(told(of(error), "")) == (
        "HS2 has a certificate that is not trusted (self-signed certificate): check --ca-file"
    )


def test_an_error_of_ours_while_rows_are_read_stays_what_it_is() -> None:
    with pytest.raises(KeyError), as_server_error("HS2", "SELECT 1"):
        raise KeyError("ours")


@pytest.mark.parametrize(("statement", "shown"), [("x" * 80, "x" * 80), ("x" * 81, "x" * 78 + ".."), ("a\n  b", "a b")])
def test_a_long_statement_is_cut(statement: str, shown: str) -> None:
    assert str(told(refused("no"), statement)) == f"HS2 rejected: no: {shown}"


def test_a_file_without_a_certificate(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("nothing")
    with pytest.raises(ServerError) as raised:
        connected(Address(host="h", ssl=True, ca_file=str(tmp_path / "ca"))).__enter__()
    assert str(raised.value) == f"{tmp_path}/ca does not contain a certificate in PEM format"


def test_kerberos_over_http() -> None:
    with pytest.raises(ServerError, match="Kerberos over HTTP is not supported: give --auth LDAP"):
        connected(Address(host="h", auth="KERBEROS", transport="http")).__enter__()
