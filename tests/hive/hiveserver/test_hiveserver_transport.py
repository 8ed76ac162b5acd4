"""HiveServer2 over HTTP and TLS: real servers with a certificate that keytool made, and what those are told who
knock in another way.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hive_bitmap import cli
from hive_bitmap.errors import ServerError
from hive_bitmap.hive.hiveserver.connection import Address, connected
from hive_bitmap.spark import java
from tests.servers import thriftserver
from tests.servers.fixtures import started
from tests.servers.hiveserver import HiveServer

pytestmark = [pytest.mark.hive, pytest.mark.xdist_group("transport")]
HTTP = {"hive.server2.transport.mode": "http", "hive.server2.thrift.http.path": "there"}
KEY = "-alias key -storetype PKCS12 -storepass changeit"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of 127.0.0.1, signed by itself; the key lies beside it."""
    folder = tmp_path_factory.mktemp("certificate")
    store, found = folder / "key.p12", folder / "certificate.pem"
    tool = str(Path(java.executable()).with_name("keytool"))
    make = f"-genkeypair -keyalg RSA -dname CN=somebody -ext SAN=ip:127.0.0.1 {KEY} -keystore"
    for arguments in ([*make.split(), str(store)], [*f"-exportcert -rfc {KEY} -keystore".split(), str(store)]):
        done = subprocess.run([tool, *arguments], capture_output=True, text=True, check=True)
    found.write_text(done.stdout)
    return found


def address(server: HiveServer, mode: str, certificate: Path, host: str = "127.0.0.1", seconds: float = 300) -> Address:
    """How to come to a server in that mode."""
    return Address(
        host=host,
        port=server.port,
        seconds=seconds,
        transport="http" if "http" in mode else "binary",
        http_path="there",
        ssl="TLS" in mode,
        ca_file=str(certificate) if "TLS" in mode else None,
    )


@pytest.fixture(scope="module", params=["http", "http TLS", "TLS"])
def running(
    request: pytest.FixtureRequest, certificate: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, HiveServer]]:
    mode: str = request.param
    settings = HTTP.copy() if "http" in mode else {}
    if "TLS" in mode:
        settings |= {
            "hive.server2.use.SSL": "true",
            "hive.server2.keystore.path": str(certificate.with_name("key.p12")),
            "hive.server2.keystore.password": "changeit",
        }

    def ask(server: HiveServer) -> None:
        with connected(address(server, mode, certificate)) as asked:
            asked.all("SELECT 1")

    with started(thriftserver.serving(tmp_path_factory.mktemp("transport"), settings, ask)) as server:
        yield mode, server


def test_rows_come(running: tuple[str, HiveServer], certificate: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mode, server = running
    options = ["--hiveserver2", f"127.0.0.1:{server.port}"]
    options += ["--transport", "http", "--http-path", "/there/"] if "http" in mode else []
    options += ["--ssl", "--ca-file", str(certificate)] if "TLS" in mode else []
    query = ["sql", "--format", "csv", "-e", "SELECT count(*) AS n FROM range(2000)"]
    assert cli.main([*options, *query]) == 0
    assert capsys.readouterr().out == "n\n2000\n"
    with connected(address(server, mode, certificate)) as asked:
        assert asked.is_spark and asked.all("SELECT id FROM range(2000)") == [(n,) for n in range(2000)]


def test_other_ways_are_told(running: tuple[str, HiveServer], certificate: Path) -> None:
    mode, server = running
    right = address(server, mode, certificate, seconds=30)
    for other in {"", "http", "http TLS", "TLS"} - {mode}:
        assert "--transport and --ssl" in said(address(server, other, certificate, seconds=30)) or (
            mode == "http" and "TLS" in other
        )
    if "TLS" in mode:
        assert "has a certificate that is not trusted (self-signed certificate): check --ca-file" in said(
            replace(right, ca_file=None)
        )
        assert "(Hostname mismatch, certificate is not valid for 'localhost'): check --ca-file" in said(
            replace(right, host="localhost")
        )
    else:
        assert "does not speak TLS (WRONG_VERSION_NUMBER): leave out --ssl" in said(replace(right, ssl=True))
    if "http" in mode:
        reason = "does not accept our request (HTTP 405 Method Not Allowed): check --auth, --username, --transport and"
        assert reason in said(replace(right, http_path="nix"))


def said(where: Address) -> str:
    """Why no session comes about."""
    with pytest.raises(ServerError) as error, connected(where):
        pass
    assert "\n" not in str(error.value)
    return str(error.value)
