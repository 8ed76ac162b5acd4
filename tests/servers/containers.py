"""The servers of docker/compose.yaml in place of plain processes, for `pytest --docker` (`make test-docker`).

They see the folder of the test run under its own path, so that they are to the tests what the processes are.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

import pyspark
from testcontainers.compose import DockerCompose

from tests.servers import hive2 as hive2_process
from tests.servers import jars, metastore4
from tests.servers.hiveserver import HiveServer, run
from tests.servers.jars import Unavailable
from tests.servers.metastore import Metastore, ask

FOLDER = Path(__file__).parents[2] / "docker"


@contextlib.contextmanager
def hive2(shared: Path) -> Iterator[HiveServer]:
    """HiveServer2 2.3.10. Raises Unavailable where no Docker engine answers."""
    with _serving("hive2", 10000, shared) as (host, port):
        yield _answering(HiveServer(host, port, shared / "hive2" / "warehouse", hive2_process.VERSION))


@contextlib.contextmanager
def metastore(shared: Path) -> Iterator[Metastore]:
    """The metastore of Hive 4 on PostgreSQL. Raises Unavailable where no Docker engine answers."""
    client = metastore4.client_settings(jars.resolve("hive4"))
    with _serving("metastore4", 9083, shared) as (_, port):
        ask(port)
        yield Metastore(port, metastore4.VERSION, shared / "metastore4" / "external", client)


@contextlib.contextmanager
def hive4(shared: Path) -> Iterator[HiveServer]:
    """HiveServer2 4.0.1 on `metastore`. Raises Unavailable where no Docker engine answers."""
    with _serving("hive4", 10000, shared) as (host, port):
        yield _answering(HiveServer(host, port, shared / "metastore4" / "external", metastore4.VERSION))


@contextlib.contextmanager
def thrift_server(shared: Path) -> Iterator[HiveServer]:
    """Spark's Thrift Server. Raises Unavailable where no Docker engine answers."""
    with _serving("spark", 10000, shared) as (host, port):
        yield _answering(HiveServer(host, port, shared / "spark" / "warehouse", pyspark.__version__))


@contextlib.contextmanager
def _serving(service: str, port: int, shared: Path) -> Iterator[tuple[str, int]]:
    """Where the port of a service is on the host, with what it depends on healthy, until the block ends."""
    _require_engine()
    settings = shared / "compose.env"
    ports = "".join(f"{name}_PORT=0\n" for name in ("METASTORE4", "HIVE4", "HIVE2", "SPARK"))
    settings.write_text(
        f"COMPOSE_PROJECT_NAME=hive_bitmap_{zlib.crc32(str(shared).encode()):08x}\nSHARED={shared}\n{ports}"
    )
    compose = DockerCompose(FOLDER, "compose.yaml", build=True, env_file=str(settings), services=[service])
    try:
        compose.start()
        host, mapped = compose.get_service_host_and_port(service, port)
        yield str(host), int(mapped or 0)
    finally:
        compose.stop()


def _require_engine() -> None:
    if shutil.which("docker") is None:
        raise Unavailable("there is no docker command")
    for command in (["docker", "info"], ["docker", "compose", "version"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"`{' '.join(command)}` fails: {(done.stderr or done.stdout).strip().splitlines()[-1]}")


def _answering(server: HiveServer) -> HiveServer:
    """The server, which has answered a first call."""
    with contextlib.closing(server.connect()) as connection:
        run(connection, "SHOW DATABASES")
    return server
