"""The Hive 2.3.10 of the tests is what it says: its version, its CREATE INDEX, databases of their own."""

from __future__ import annotations

import contextlib

import pytest

from tests.servers.hiveserver import HiveServer, run

pytestmark = [pytest.mark.hive, pytest.mark.xdist_group("hive2")]


def test_it_answers_and_knows_indexes(hive2: HiveServer, hive2_database: str) -> None:
    with contextlib.closing(hive2.connect(hive2_database, **{"hive.fetch.task.conversion": "none"})) as connection:
        assert run(connection, "SELECT version()")[0][0].startswith(hive2.version)
        run(connection, "CREATE TABLE t (k int, v string)")
        run(connection, "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        run(connection, "CREATE INDEX i ON TABLE t (k) AS 'COMPACT' WITH DEFERRED REBUILD")
        assert run(connection, "SHOW INDEX ON t")[0][3].strip() == f"{hive2_database}__t_i__"
        assert run(connection, "SELECT v FROM t WHERE k = 2") == [("b",)]
    assert (hive2.warehouse / f"{hive2_database}.db" / "t").is_dir()
