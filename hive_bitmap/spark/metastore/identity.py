"""Identify a metastore, to tell it apart from other metastores.

The marker of an index root has the id of its metastore, because several metastores may use one folder.
"""

from __future__ import annotations

import hashlib
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hive_bitmap.core.stores.options import OF_HADOOP
from hive_bitmap.spark.metastore import jvm_reader, jvm_settings, session_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

URIS, DATABASE = "hive.metastore.uris", "javax.jdo.option.ConnectionURL"
DEFAULT_DATABASE = (
    "jdbc:derby:;databaseName=metastore_db;create=true"  # Hive's default, in the working folder of the JVM
)
HEX_DIGITS = 32
_LOOPBACK = ("localhost", "127.", "[::1]", "0.0.0.0")


def metastore_id(spark: SparkSession) -> str:
    """Return the id of the session's metastore; "" if it is unknown.

    Ids are compared by `roots.may_be_same`. An id consists of hashes, because the addresses of the metastore servers or
    of their database may contain a password. The id is unknown for a metastore in memory, and in a session that does
    not show its configuration.
    """
    configuration = _configured(spark)
    addresses = _of_servers(configuration.get(URIS, "")) or _of_database(
        configuration.get(DATABASE, ""), configuration.get("user.dir", "")
    )
    return ",".join(hashlib.sha256(address.encode()).hexdigest()[:HEX_DIGITS] for address in addresses)


def _configured(spark: SparkSession) -> dict[str, str]:
    """Return the settings that name the metastore, and the JVM's working folder."""
    if jvm_reader.available(spark):
        configuration = jvm_settings.of_metastore(spark, (URIS, DATABASE))
        return (
            {DATABASE: DEFAULT_DATABASE, **configuration}
            if configuration and URIS not in configuration
            else configuration
        )
    settings = session_settings.settings(spark)
    return {name: settings[OF_HADOOP + name] for name in (URIS, DATABASE) if OF_HADOOP + name in settings}


def _of_servers(uris: str) -> list[str]:
    """Return the addresses of metastore servers.

    `uris` are the servers, separated by commas. The first item of the result is a text of all addresses together; the
    other items are the single addresses. Two clients of one metastore may name different servers, but still have an
    address in common. An address on this machine includes the name of the machine.
    """
    servers = sorted({_with_host(uri.strip().lower()) for uri in uris.split(",") if uri.strip()})
    return list(dict.fromkeys([",".join(servers), *servers])) if servers else []


def _of_database(url: str, folder: str) -> list[str]:
    """Return the address of the metastore's database.

    `folder` is the working folder of the JVM, to which the path in `url` may be relative. The result is empty for a
    database in memory or in an unknown place.
    """
    if url.startswith("jdbc:derby:") and "//" not in url:
        parameters = dict(
            pair.partition("=")[::2] for pair in url.removeprefix("jdbc:derby:").split(";") if "=" in pair
        )
        path = parameters.get("databaseName") or url.removeprefix("jdbc:derby:").partition(";")[0]
        if path.startswith("memory:") or not path or not (path.startswith("/") or folder):
            return []
        return [f"derby {socket.gethostname()} {path if path.startswith('/') else f'{folder}/{path}'}"]
    return [_with_host(url)] if url else []


def _with_host(address: str) -> str:
    host = urlsplit(address.removeprefix("jdbc:")).netloc.rpartition("@")[2]
    return f"{socket.gethostname()} {address}" if host.startswith(_LOOPBACK) else address
