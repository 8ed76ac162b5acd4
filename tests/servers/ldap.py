"""A directory of users for a server to look them up in: UnboundID's LDAP server, which keeps it in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from hive_bitmap.errors import HiveBitmapError
from hive_bitmap.spark import java
from tests.servers import jars, process

JAR = "com.unboundid:unboundid-ldapsdk:7.0.5"
BASE = "ou=people,dc=example,dc=org"
USERS = {"ann": "Ann's secret 1", "hive": "x"}  # as `hive` the tests' own connections come
_ENTRY = """
dn: uid={name},{base}
objectClass: inetOrgPerson
uid: {name}
cn: {name}
sn: {name}
userPassword: {password}
"""
_ROOT = (
    f"dn: {BASE.partition(',')[2]}\nobjectClass: domain\ndc: example\n\ndn: {BASE}\nobjectClass: organizationalUnit\n"
)


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[dict[str, str]]:
    """The settings of a HiveServer2 that lets in USERS, until the block ends.

    Raises jars.Unavailable where Java or the jar cannot be had.
    """
    (jar,) = jars.resolve("ldap", [JAR]).iterdir()
    folder.mkdir()
    users = "".join(_ENTRY.format(name=name, base=BASE, password=password) for name, password in USERS.items())
    (folder / "users.ldif").write_text(f"{_ROOT}{users}")
    port = process.free_port()
    try:
        command = [java.executable(), "-Xmx64m", "-XX:TieredStopAtLevel=1", "-cp", str(jar)]
    except HiveBitmapError as e:
        raise jars.Unavailable(str(e)) from e
    command += ["com.unboundid.ldap.listener.InMemoryDirectoryServerTool", "--port", str(port)]
    command += ["--baseDN", BASE.partition(",")[2], "--ldifFile", str(folder / "users.ldif")]
    with process.serving(command, folder, partial(process.connect, port)):
        yield {
            "hive.server2.authentication": "LDAP",
            "hive.server2.authentication.ldap.url": f"ldap://127.0.0.1:{port}",
            "hive.server2.authentication.ldap.baseDN": BASE,
        }
