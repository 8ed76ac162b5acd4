"""Which sessions have the same metastore, by the addresses in their settings."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from hive_bitmap.core.index.roots import may_be_same
from hive_bitmap.spark.metastore import identity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOST = socket.gethostname()


def test_servers_that_clients_have_in_common_are_of_one_metastore(monkeypatch: pytest.MonkeyPatch) -> None:
    def id_of(uris: str) -> str:
        with monkeypatch.context() as given:
            given.setattr(identity, "_configured", lambda spark: {identity.URIS: uris} if uris else {})
            return identity.metastore_id(None)  # type: ignore[arg-type]

    one, both, again, other = map(
        id_of,
        ("thrift://a:9083", "thrift://a:9083,thrift://b:9083", " thrift://B:9083 ,thrift://A:9083", "thrift://c:9083"),
    )
    assert both == again and len(one) == identity.HEX_DIGITS
    assert may_be_same(one, both) and may_be_same(id_of("thrift://b:9083"), both)
    assert not may_be_same(one, other) and not may_be_same(both, other)
    assert id_of("") == "" and id_of("thrift://localhost:9083") != id_of("thrift://127.0.0.2:9083")


@pytest.mark.parametrize(
    ("url", "folder", "address"),
    [
        ("jdbc:derby:;databaseName=/w/m;create=true", "", [f"derby {HOST} /w/m"]),
        ("jdbc:derby:/w/m;create=true", "/home", [f"derby {HOST} /w/m"]),
        (identity.DEFAULT_DATABASE, "/home", [f"derby {HOST} /home/metastore_db"]),
        (identity.DEFAULT_DATABASE, "", []),
        ("jdbc:derby:memory:m;create=true", "/home", []),
        ("jdbc:postgresql://db:5432/hive", "/home", ["jdbc:postgresql://db:5432/hive"]),
        ("jdbc:mysql://localhost/hive", "", [f"{HOST} jdbc:mysql://localhost/hive"]),
        ("", "/home", []),
    ],
)
def test_databases(url: str, folder: str, address: list[str]) -> None:
    assert identity._of_database(url, folder) == address


def test_a_session_of_a_derby_metastore_has_an_id(spark: SparkSession) -> None:
    assert len(identity.metastore_id(spark)) == identity.HEX_DIGITS
