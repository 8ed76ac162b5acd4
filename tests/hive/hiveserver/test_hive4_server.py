"""The Hive 4 and the Spark Thrift Server of the tests are what they say, and databases of theirs are their own."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.errors import Unsupported
from hive_bitmap.hive.hive2.ddl import HiveIndex
from hive_bitmap.hive.hiveserver.connection import Server
from hive_bitmap.hive.hiveserver.register import register_index
from tests.servers import metastore, metastore4
from tests.servers.hiveserver import HiveServer, run
from tests.servers.metastore import Metastore

pytestmark = pytest.mark.hive


@pytest.mark.xdist_group("hive4")
def test_hiveserver2(hive4: HiveServer, metastore4: Metastore, hive4_database: str) -> None:
    """External tables lie in the external warehouse; partition filters, which its metastore evaluates, work."""
    with contextlib.closing(hive4.connect(hive4_database)) as connection:
        assert run(connection, "SELECT version()")[0][0].startswith(hive4.version)
        run(connection, "CREATE EXTERNAL TABLE t (k int) PARTITIONED BY (p int) STORED AS ORC")
        run(connection, "INSERT INTO t PARTITION (p) VALUES (1, 1), (2, 2), (3, 2)")
        assert run(connection, "SELECT p, count(*) FROM t WHERE k > 1 GROUP BY p") == [(2, 2)]
        run(connection, "ALTER TABLE t DROP PARTITION (p > 1)")
        assert run(connection, "SHOW PARTITIONS t") == [("p=1",)]
    assert (metastore4.warehouse / f"{hive4_database}.db" / "t" / "p=1").is_dir()


@pytest.mark.xdist_group("hive4")
def test_a_server_without_indexes_is_named(hive4: HiveServer) -> None:
    index = HiveIndex(
        definition=Definition(name="i", database="default", table="t", columns=(Column("k", "int"),)),
        name="hive_i",
        root="file:/x",
        partition_columns=(),
        partitions=(),
    )
    with (
        contextlib.closing(hive4.connect()) as connection,
        pytest.raises(Unsupported, match=r"is version 4.0.1, but only Hive up to 2.3 has indexes; hive-bitmap --hives"),
    ):
        register_index(Server(connection), index)


@pytest.mark.xdist_group("thrift_server")
def test_thrift_server(thrift_server: HiveServer, thrift_server_database: str) -> None:
    with contextlib.closing(thrift_server.connect(thrift_server_database)) as connection:
        assert run(connection, "SELECT version()")[0][0].startswith(thrift_server.version)
        run(connection, "CREATE TABLE t (k int, v string) STORED AS PARQUET")
        run(connection, "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        assert run(connection, "SELECT v FROM t WHERE k = 2") == [("b",)]
    assert (thrift_server.warehouse / f"{thrift_server_database}.db" / "t").is_dir()


def test_a_metastore_without_postgresql(tmp_path: Path) -> None:
    with metastore4.serving(tmp_path / "metastore", on_postgres=False) as server:
        metastore.ask(server.port)
