"""The settings that decide who is trusted and who reads: what the server of a session sets, the session cannot undo.

The server's settings are those in the configuration of its SparkContext, with or without the prefix `spark.`.
"""

from __future__ import annotations

from collections.abc import Mapping

PREFIX = "hive_bitmap."
ENGINE_READS_ONLY = PREFIX + "engine_reads_only"
TRUSTED_OWNERS = PREFIX + "trusted_owners"
TRUSTED_ROOTS = PREFIX + "trusted_roots"
WORKER_PYTHON = "spark.sql.execution.pyspark.python"  # the program that runs as the Python of tasks
OF_PROCESS = tuple(PREFIX + "stores." + name for name in ("hdfs.user", "hdfs.client", "cache_folder"))
OF_TRUST = (ENGINE_READS_ONLY, TRUSTED_OWNERS, TRUSTED_ROOTS)
NAMES = (*OF_TRUST, *OF_PROCESS)


def items(settings: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return the items of a setting that is a list with commas.

    >>> items({"hive_bitmap.trusted_owners": "etl, ops"}, "hive_bitmap.trusted_owners")
    ('etl', 'ops')
    """
    return tuple(item.strip() for item in settings.get(name, "").split(",") if item.strip())


def enforced(server: Mapping[str, str], session: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a session with those of its server in force: a session may only be stricter.

    As whom the process reads, and where it writes a cache, only the server says: the process is that of all sessions.

    >>> enforced({"hive_bitmap.trusted_owners": "etl,ops"}, {"hive_bitmap.trusted_owners": "ops,me"})
    {'hive_bitmap.trusted_owners': 'ops'}
    >>> enforced({}, {"hive_bitmap.stores.hdfs.user": "hdfs"})
    {}
    """
    found = {name: value for name, value in session.items() if name.removeprefix("spark.") not in OF_PROCESS}
    found |= {name: server[name] for name in OF_PROCESS if name in server}
    if (said := server.get(ENGINE_READS_ONLY, "false")).strip().lower() != "false":
        found[ENGINE_READS_ONLY] = said
    for name in (TRUSTED_OWNERS, TRUSTED_ROOTS):
        if name in server:
            asked = items(session, name) if name in session else items(server, name)
            found[name] = ",".join(item for item in items(server, name) if item in asked)
    return found
