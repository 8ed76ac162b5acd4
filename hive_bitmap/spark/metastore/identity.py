"""What tells one metastore from another, so that files in a shared folder are known to be of this one."""

from __future__ import annotations

import hashlib
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hive_bitmap.spark.metastore import jvm_reader, jvm_settings, session_settings
from hive_bitmap.spark.metastore.session_settings import OF_HADOOP

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

URIS, DATABASE = "hive.metastore.uris", "javax.jdo.option.ConnectionURL"
HEX_DIGITS = 32
_LOOPBACK = ("localhost", "127.", "[::1]", "0.0.0.0")


def metastore_id(spark: SparkSession) -> str:
    """Return a text that only sessions of the same metastore have; "" if it cannot be told from others.

    It is a hash of the address of the metastore or of its database, which may hold a password. A metastore in memory,
    and a session that does not show its configuration, cannot be told.
    """
    found = _configured(spark)
    address = _of_servers(found.get(URIS, "")) or _of_database(found.get(DATABASE, ""), found.get("user.dir", ""))
    return hashlib.sha256(address.encode()).hexdigest()[:HEX_DIGITS] if address else ""


def _configured(spark: SparkSession) -> dict[str, str]:
    """Return the settings that name the metastore, and the folder in which the JVM runs."""
    if jvm_reader.available(spark):
        return jvm_settings.of_metastore(spark, (URIS, DATABASE))
    settings = session_settings.settings(spark)
    return {name: settings[OF_HADOOP + name] for name in (URIS, DATABASE) if OF_HADOOP + name in settings}


def _of_servers(uris: str) -> str:
    """Return the addresses of metastore servers, sorted; those of this machine with its name."""
    return ",".join(sorted(_with_host(uri.strip().lower()) for uri in uris.split(",") if uri.strip()))


def _of_database(url: str, folder: str) -> str:
    """Return the address of the metastore's database; "" for one in memory or in an unknown place."""
    if url.startswith("jdbc:derby:") and "//" not in url:
        named = dict(pair.partition("=")[::2] for pair in url.removeprefix("jdbc:derby:").split(";") if "=" in pair)
        path = named.get("databaseName") or url.removeprefix("jdbc:derby:").partition(";")[0]
        if path.startswith("memory:") or not path or not (path.startswith("/") or folder):
            return ""
        return f"derby {socket.gethostname()} {path if path.startswith('/') else f'{folder}/{path}'}"
    return _with_host(url)


def _with_host(address: str) -> str:
    host = urlsplit(address.removeprefix("jdbc:")).netloc.rpartition("@")[2]
    return f"{socket.gethostname()} {address}" if host.startswith(_LOOPBACK) else address
