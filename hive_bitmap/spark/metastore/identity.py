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
DEFAULT_DATABASE = "jdbc:derby:;databaseName=metastore_db;create=true"  # Hive's, in the folder in which the JVM runs
HEX_DIGITS = 32
_LOOPBACK = ("localhost", "127.", "[::1]", "0.0.0.0")


def metastore_id(spark: SparkSession) -> str:
    """Return the id of the session's metastore, to be compared by `roots.may_be_same`; "" if it is not known.

    It holds hashes of the addresses of the metastore servers or of their database, which may hold a password. A
    metastore in memory has no id, nor has that of a session that does not show its configuration.
    """
    found = _configured(spark)
    addresses = _of_servers(found.get(URIS, "")) or _of_database(found.get(DATABASE, ""), found.get("user.dir", ""))
    return ",".join(hashlib.sha256(address.encode()).hexdigest()[:HEX_DIGITS] for address in addresses)


def _configured(spark: SparkSession) -> dict[str, str]:
    """Return the settings that name the metastore, and the folder in which the JVM runs."""
    if jvm_reader.available(spark):
        found = jvm_settings.of_metastore(spark, (URIS, DATABASE))
        return {DATABASE: DEFAULT_DATABASE, **found} if found and URIS not in found else found
    settings = session_settings.settings(spark)
    return {name: settings[OF_HADOOP + name] for name in (URIS, DATABASE) if OF_HADOOP + name in settings}


def _of_servers(uris: str) -> list[str]:
    """Return the addresses of metastore servers, all of them as one first; those of this machine with its name.

    Clients that name different servers of one metastore share an address.
    """
    each = sorted({_with_host(uri.strip().lower()) for uri in uris.split(",") if uri.strip()})
    return list(dict.fromkeys([",".join(each), *each])) if each else []


def _of_database(url: str, folder: str) -> list[str]:
    """Return the address of the metastore's database; none for one in memory or in an unknown place."""
    if url.startswith("jdbc:derby:") and "//" not in url:
        named = dict(pair.partition("=")[::2] for pair in url.removeprefix("jdbc:derby:").split(";") if "=" in pair)
        path = named.get("databaseName") or url.removeprefix("jdbc:derby:").partition(";")[0]
        if path.startswith("memory:") or not path or not (path.startswith("/") or folder):
            return []
        return [f"derby {socket.gethostname()} {path if path.startswith('/') else f'{folder}/{path}'}"]
    return [_with_host(url)] if url else []


def _with_host(address: str) -> str:
    host = urlsplit(address.removeprefix("jdbc:")).netloc.rpartition("@")[2]
    return f"{socket.gethostname()} {address}" if host.startswith(_LOOPBACK) else address
