"""Read the settings of a classic session through py4j, and enforce its server's settings.

The settings belong to Spark and Hadoop. The server is the Spark application that runs the sessions. The server's
settings in NAMES decide who is trusted and who reads files, so a session cannot undo these settings. They are in the
configuration of the server's SparkContext, with or without the prefix `spark.`. All functions but `items`, `enforced`
and `with_startup` need a session for which `jvm_reader.available` is true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from hive_bitmap.core.planning.settings import OF_READERS
from hive_bitmap.core.stores.options import HDFS_USER, PREFIX
from hive_bitmap.errors import StoreError
from hive_bitmap.spark.metastore import jvm_reader

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

ENGINE_READS_ONLY = "hive_bitmap.engine_reads_only"
TRUSTED_OWNERS, TRUSTED_ROOTS = "hive_bitmap.trusted_owners", "hive_bitmap.trusted_roots"
WORKER_PYTHON = "spark.sql.execution.pyspark.python"  # the program that runs as the Python of tasks
OF_PROCESS = tuple(PREFIX + name for name in ("hdfs.user", "hdfs.client", "cache_folder"))
OF_TRUST = (ENGINE_READS_ONLY, TRUSTED_OWNERS, TRUSTED_ROOTS)
NAMES = (*OF_TRUST, *OF_PROCESS)
CREDENTIAL_FILES = "security.credential.provider.path"


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


def session(spark: SparkSession) -> dict[str, str]:
    """Return the session's settings that are not at their defaults.

    The result includes the settings in OF_READERS of the Hadoop configuration, and stays within the limits that the
    server sets (`enforced`).
    """
    session_settings = jvm_reader.to_python(spark, cast(Any, spark.conf)._jconf.getAll())
    return _enforced(spark, {**_of_readers(spark), **session_settings})


def of_map(spark: SparkSession, scala_map: Any) -> dict[str, str]:
    """Convert a session's settings from a Scala map to a dictionary.

    The result stays within the limits that the server sets (`enforced`).
    """
    return _enforced(spark, jvm_reader.to_python(spark, scala_map))


def _of_readers(spark: SparkSession) -> dict[str, str]:
    """Return the settings in OF_READERS that a program or Hadoop's site file has set."""
    conf = cast(Any, spark.sparkContext)._jsc.hadoopConfiguration()
    values = {name: conf.get(name) for name in OF_READERS}
    sources = {name: conf.getPropertySources(name) for name, value in values.items() if value is not None}
    return {
        name: values[name] for name, origins in sources.items() if origins and not origins[-1].endswith("-default.xml")
    }


def _enforced(spark: SparkSession, settings: Mapping[str, str]) -> dict[str, str]:
    return enforced(_of_server(spark.sparkContext), with_startup(settings))


@lru_cache(maxsize=8)
def _of_server(context: SparkContext) -> dict[str, str]:
    """Return the values of NAMES in the configuration of a SparkContext.

    No session can change this configuration.
    """
    conf: Any = context._conf  # `getConf` copies it, with two calls for each setting
    names = [prefix + name for name in NAMES for prefix in ("spark.", "")]
    return with_startup({name: conf.get(name) for name in names if conf.contains(name)})


def of_application(spark: SparkSession) -> None:
    """Reset a session's trust and Python settings to its application's settings."""
    conf = cast(Any, spark.sparkContext)._conf
    for name in (*OF_TRUST, WORKER_PYTHON):
        for key in (name, f"spark.{name}"):
            spark.conf.unset(key)
    if conf.contains(WORKER_PYTHON):
        spark.conf.set(WORKER_PYTHON, conf.get(WORKER_PYTHON))


def has_own_python(spark: SparkSession) -> bool:
    """Return whether a session's tasks use another Python than its application's tasks."""
    name = WORKER_PYTHON
    return bool(spark.conf.get(name, None) != cast(Any, spark.sparkContext)._conf.get(name))


def with_startup(settings: Mapping[str, str]) -> dict[str, str]:
    """Add settings of this package that were set at startup with the prefix `spark.`.

    When Spark starts, it ignores all settings without this prefix, so users add it. The result has all `settings`, and
    prefixed settings of this package also without the prefix. If a setting is also given without the prefix, the value
    given without the prefix stays.

    >>> with_startup({"spark.hive_bitmap.strategy": "rows"})["hive_bitmap.strategy"]
    'rows'
    """
    prefix = "spark.hive_bitmap."
    started = {key.removeprefix("spark."): value for key, value in settings.items() if key.startswith(prefix)}
    return {**started, **settings}


def of_metastore(spark: SparkSession, names: Sequence[str]) -> dict[str, str]:
    """Return the settings `names` of the metastore's client, and the JVM's `user.dir`.

    Without a Hive metastore the result is empty: Spark's catalog is then in memory.
    """
    classic, jvm = cast(Any, spark)._jsparkSession, cast(Any, spark._jvm)
    if classic.sparkContext().conf().get("spark.sql.catalogImplementation", "in-memory") != "hive":
        return {}
    conf = classic.sessionState().newHadoopConf()
    values = {name: conf.get(name) for name in names}
    return {
        "user.dir": str(jvm.System.getProperty("user.dir")),
        **{name: str(value) for name, value in values.items() if value},
    }


def of_stores(spark: SparkSession, prefixes: Sequence[str]) -> dict[str, str]:
    """Return the session's Hadoop settings with these prefixes, and its secrets.

    The secrets are those in Hadoop's credential files. The result also has the name of the Hadoop user, as a setting of
    this package (HDFS_USER). Raises StoreError if a credential file cannot be read.
    """
    conf = cast(Any, spark)._jsparkSession.sessionState().newHadoopConf()
    settings = {}
    for prefix in prefixes:
        properties = jvm_reader.to_python(spark, conf.getPropsWithPrefix(prefix))
        settings.update({prefix + name: value for name, value in properties.items()})
    jvm: Any = spark._jvm
    user = jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser()
    settings[PREFIX + HDFS_USER] = str(user.getShortUserName())
    paths = {name: path for name, path in settings.items() if name.endswith(CREDENTIAL_FILES) and path.strip()}
    for name, path in sorted(paths.items(), key=lambda pair: pair[0].startswith("fs.s3a.")):
        bucket = name.removeprefix("fs.s3a.bucket.").removesuffix(f".{CREDENTIAL_FILES}") if ".bucket." in name else ""
        for alias, secret in _credentials(spark, conf, path).items():
            inside = bucket and alias.startswith("fs.s3a.") and not alias.startswith("fs.s3a.bucket.")
            settings[f"fs.s3a.bucket.{bucket}.{alias.removeprefix('fs.s3a.')}" if inside else alias] = secret
    return settings


def _credentials(spark: SparkSession, conf: Any, path: str) -> dict[str, str]:
    """Return the secrets in Hadoop's credential files, by alias.

    `path` is the list of files in Hadoop's form. Raise StoreError if a file cannot be read.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    jvm: Any = spark._jvm
    credential_conf = jvm.org.apache.hadoop.conf.Configuration(conf)
    credential_conf.set(f"hadoop.{CREDENTIAL_FILES}", path)
    try:
        return {
            alias: "".join(provider.getCredentialEntry(alias).getCredential())
            for provider in jvm.org.apache.hadoop.security.alias.CredentialProviderFactory.getProviders(credential_conf)
            for alias in provider.getAliases()
        }
    except Py4JJavaError as e:
        reason = str(e.java_exception.toString()).partition("\n")[0]
        raise StoreError(f"the credential files {path} cannot be read: {reason} ({CREDENTIAL_FILES})") from e
