"""The settings that decide who is trusted and who reads files.

The server is the Spark application that runs the sessions. A session cannot undo what its server sets. The
configuration of the server's SparkContext has the server's settings, with or without the prefix `spark.`.
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
    """Return the items of a setting that is a comma-separated list.

    >>> items({"hive_bitmap.trusted_owners": "etl, ops"}, "hive_bitmap.trusted_owners")
    ('etl', 'ops')
    """
    return tuple(item.strip() for item in settings.get(name, "").split(",") if item.strip())


def enforced(server: Mapping[str, str], session: Mapping[str, str]) -> dict[str, str]:
    """Return a session's settings, within the limits that its server sets.

    A session may only be stricter than its server. Only the server sets the user that the process reads as, and the
    folder of its cache, because all sessions share the process.

    >>> enforced({"hive_bitmap.trusted_owners": "etl,ops"}, {"hive_bitmap.trusted_owners": "ops,me"})
    {'hive_bitmap.trusted_owners': 'ops'}
    >>> enforced({}, {"hive_bitmap.stores.hdfs.user": "hdfs"})
    {}
    """
    in_force = {name: value for name, value in session.items() if name.removeprefix("spark.") not in OF_PROCESS}
    in_force |= {name: server[name] for name in OF_PROCESS if name in server}
    if (engine_reads_only := server.get(ENGINE_READS_ONLY, "false")).strip().lower() != "false":
        in_force[ENGINE_READS_ONLY] = engine_reads_only
    for name in (TRUSTED_OWNERS, TRUSTED_ROOTS):
        if name in server:
            requested = items(session, name) if name in session else items(server, name)
            in_force[name] = ",".join(item for item in items(server, name) if item in requested)
    return in_force
