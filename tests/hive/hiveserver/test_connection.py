"""Test the HiveServer2 client without a server: conditions, manifests as text, and errors of connections."""

from __future__ import annotations

import contextlib
import gzip
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import click
import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap import cli
from hive_bitmap.cli.server import address_of
from hive_bitmap.core import stores
from hive_bitmap.core.index import checksums, manifest
from hive_bitmap.core.predicates.nodes import (
    And,
    Compare,
    Constant,
    In,
    IsNull,
    Or,
    Predicate,
    Prefix,
    SparkLeaf,
    Unknown,
)
from hive_bitmap.core.selecting.key_matches import key_matches
from hive_bitmap.errors import CorruptIndex, ServerError
from hive_bitmap.hive.hiveserver.connection import FETCHED, Address, Server, connected
from hive_bitmap.hive.hiveserver.hiveql import condition

KEYS: dict[str, tuple[pa.DataType, list[object]]] = {
    "int": (pa.int32(), [None, -(2**31), -1, 0, 1, 7, 2**31 - 1]),
    "string": (pa.string(), [None, "", "a", "ab", "a b", "é", "it's", "a\\b", "b%", "$x", "日本", "a;b", 'q"']),
    "decimal(7,2)": (pa.decimal128(7, 2), [None, *map(Decimal, ("-12345.67", "-0.50", "0.00", "0.01", "99999.99"))]),
    "date": (pa.date32(), [None, date(1600, 1, 1), date(1970, 1, 1), date(2024, 2, 29), date(9999, 12, 31)]),
    "boolean": (pa.bool_(), [None, True, False]),
}


def leaves(type: str) -> st.SearchStrategy[Predicate]:
    values = st.sampled_from([value for value in KEYS[type][1] if value is not None])
    found: list[st.SearchStrategy[Predicate]] = [
        st.builds(IsNull, st.just("k"), st.booleans()),
        st.just(Constant(True)),
        st.just(Constant(None)),
        st.just(Unknown("f(k)", "not understood")),
        st.just(SparkLeaf("k % 2 = 1", "k")),
    ]
    found.append(st.builds(Compare, st.just("k"), st.sampled_from(["=", "<>"] if type == "boolean" else OPS), values))
    found.append(st.builds(In, st.just("k"), st.lists(values, min_size=1, unique=True).map(tuple), st.booleans()))
    if type == "string":
        prefixes = st.sampled_from(["", "a", "a ", "é", "it"])
        found.append(st.builds(Prefix, st.just("k"), prefixes, st.booleans()))
    return st.one_of(found)


OPS = ["=", "<>", "<", "<=", ">", ">="]


@st.composite
def typed_predicates(draw: st.DrawFn) -> tuple[str, Predicate]:
    type = draw(st.sampled_from(sorted(KEYS)))
    children = st.lists(leaves(type), min_size=2, max_size=3).map(tuple)
    node = st.one_of(leaves(type), st.builds(And, children), st.builds(Or, children))
    return type, draw(st.one_of(node, st.builds(Or, st.lists(node, min_size=2, max_size=3).map(tuple))))


@settings(deadline=None, max_examples=60)
@given(typed_predicates())
def test_a_condition_loses_no_key(typed: tuple[str, Predicate]) -> None:
    """DuckDB evaluates the condition that would be sent to a server."""
    type, predicate = typed
    keys = pa.array(KEYS[type][1], KEYS[type][0])
    wanted = np.flatnonzero(key_matches(predicate, keys, {}))
    said = condition(predicate, {"k": type}).replace("`", '"') or "TRUE"
    rows = pa.table({"k": keys, "number": range(len(keys))})  # noqa: F841 - DuckDB reads the variable
    found = {number for (number,) in duckdb.sql(f"SELECT number FROM rows WHERE {said}").fetchall()}
    assert set(wanted.tolist()) <= found


def test_a_plain_condition_is_sent_whole() -> None:
    predicate = Or((And((Compare("k", ">", 1), Compare("k", "<", 5))), IsNull("k")))
    assert condition(predicate, {"k": "int"}) == "(`k` > 1 AND `k` < 5) OR (`k` IS NULL)"
    assert condition(And((predicate, Compare("k", "<>", 3))), {"k": "int"}).startswith("((`k` > 1 AND")


def test_a_manifest_is_the_same_as_lines(tmp_path: Path) -> None:
    file = {"path": "file:/é 1", "size": 7, "mtime_ms": 1, "etag": "", "tail_crc32": 2**32 - 1, "schema_crc": 3}
    known = {
        **file,
        "shard": "s",
        "reason": "",
        "indirect": ["a"],
        "offsets": [4, 9],
        "lengths": [5, 6],
        "rows": [1, 0],
    }
    other = {**file, "path": "b", "reason": "no", "indirect": [], "offsets": [], "lengths": [], "rows": []}
    shards = pa.Table.from_pylist([{"shard": "s", "size": 1, "rows": 2, "cardinality_size": 3}], manifest.SHARDS)
    folder = f"file:{tmp_path}/g"
    stores.make_folder(f"{folder}/{checksums.FOLDER}")
    manifest.write(folder, [pa.Table.from_pylist([known, other], manifest.FILES)], shards, {})
    with gzip.open(tmp_path / "g" / "_manifest" / manifest.LINES_NAME, "rt", encoding="ascii") as lines:
        found = manifest.from_lines(folder, lines)
    assert (found.files, found.shards) == (manifest.read(folder).files, shards)
    assert found.row_of == {"file:/é 1": 1, "b": 0}


def test_a_manifest_of_lines_that_are_none_is_refused() -> None:
    for lines in (["{"], ['{"other": {}}'], ["[1]"], ['{"file": {"size": "x"}}']):
        with pytest.raises(CorruptIndex, match="the manifest of file:/g cannot be read"):
            manifest.from_lines("file:/g", lines)


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
        with pytest.raises(ServerError, match=r"^HiveServer2 refuses: no such table: nix: SELECT [*] FROM nix$"):
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
        (refuse_credentials, r"does not accept this user or password \(Error validating the login\): see --auth and"),
        (
            read_until_closed,
            r"gave no answer in time when the session was opened: is this its Thrift port, .* --timeout sets",
        ),
        (
            lambda caller: None,
            r"ended the talk while the session was opened \(.*are --auth, --transport and --ssl its own\?",
        ),
    ],
    ids=["credentials", "time", "other"],
)
def test_a_session_that_does_not_come_about(answer: Callable[[socket.socket], None], said: str) -> None:
    with listening(answer) as port, pytest.raises(ServerError, match=rf"HiveServer2 at 127.0.0.1:{port} {said}"):
        connected(Address(host="127.0.0.1", port=port, seconds=0.5)).__enter__()


def test_kerberos_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hive_bitmap.hive.hiveserver.connection._KERBEROS", ("no_such_package",))
    with pytest.raises(ServerError, match=r"^for Kerberos another package is needed: pip install kerberos$"):
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


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--hiveserver2", "h:1", "create", "t", "a"], "this needs Spark; with --hiveserver2 go: show, query --count"),
        (["--hiveserver2", "h:1", "query", "t", "a = 1"], "this needs Spark"),
        (["--hiveserver2", "h:99999", "show", "t"], "'h:99999' is not HOST:PORT"),
        (["--hiveserver2", "h:x", "show", "t"], "is not HOST:PORT"),
        (["--auth", "PLAIN", "show", "t"], "'PLAIN' is not one of"),
        (["--timeout", "0", "show", "t"], "is not in the range x>0"),
        (["register", "/w/i"], "--hiveserver2 HOST:PORT must come before this command"),
    ],
)
def test_wrong_usage(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in " ".join(err.split())


def test_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert address_of(None, "NONE", None, "hive", 1) is None
    assert address_of("h", "NONE", None, "hive", 1) == Address(host="h", port=10000, seconds=1)
    assert str(address_of("[::1]:7", "KERBEROS", None, "svc", 1)) == "::1:7"
    monkeypatch.setenv("HIVE_BITMAP_PASSWORD", "secret")
    found = address_of("h:2", "LDAP", "ann", "hive", 1)
    assert found is not None and (found.username, found.password) == ("ann", "secret")
    with pytest.raises(click.BadParameter, match="is not HOST:PORT"):
        address_of("h:1:2", "NONE", None, "hive", 1)


def test_the_entry_point_loads_no_spark() -> None:
    code = (
        "import sys\nfrom hive_bitmap import cli\n"
        "from hive_bitmap.hive.hiveserver import index_coverage, register, server_queries\n"
        "print(cli.main(['--hiveserver2', '127.0.0.1:1', 'show', 't']))\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('pyspark', 'py4j')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n[]\n"
