"""Read the settings of a classic session through py4j: Spark's, Hadoop's, and those that the server enforces.

All functions but `with_startup` need a session for which `jvm_reader.available` is true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from hive_bitmap.core.stores.options import HDFS_USER, PREFIX
from hive_bitmap.errors import StoreError
from hive_bitmap.spark.metastore import jvm_reader, security_settings

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

OF_READERS = (  # Hadoop's, which decide what readers see, and are set past the session too; as in PythonRequest.java
    "orc.force.positional.evolution",
    "mapreduce.input.pathFilter.class",
    "mapred.input.pathFilter.class",
    "textinputformat.record.delimiter",
    "mapreduce.input.linerecordreader.line.maxlength",
    "mapreduce.input.fileinputformat.input.dir.recursive",
    "mapred.input.dir.recursive",
    "hive.mapred.supports.subdirectories",
)
CREDENTIAL_FILES = "security.credential.provider.path"


def session(spark: SparkSession) -> dict[str, str]:
    """Return the session's settings that are not at their defaults."""
    own = jvm_reader.to_python(spark, cast(Any, spark.conf)._jconf.getAll())
    return _enforced(spark, {**_of_readers(spark), **own})


def of_map(spark: SparkSession, found: Any) -> dict[str, str]:
    """Return the settings in a Scala map, as `session` does."""
    return _enforced(spark, jvm_reader.to_python(spark, found))


def _of_readers(spark: SparkSession) -> dict[str, str]:
    """Return those of OF_READERS that a program or a site file has set past the session."""
    conf = cast(Any, spark.sparkContext)._jsc.hadoopConfiguration()
    values = {name: conf.get(name) for name in OF_READERS}
    sources = {name: conf.getPropertySources(name) for name, value in values.items() if value is not None}
    return {name: values[name] for name, of in sources.items() if of and not of[-1].endswith("-default.xml")}


def _enforced(spark: SparkSession, settings: Mapping[str, str]) -> dict[str, str]:
    return security_settings.enforced(_of_server(spark.sparkContext), with_startup(settings))


@lru_cache(maxsize=8)
def _of_server(context: SparkContext) -> dict[str, str]:
    """Return the settings of `security_settings` in the server's configuration, which no session can change."""
    conf: Any = context._conf  # `getConf` copies it, with two calls for each setting
    names = [prefix + name for name in security_settings.NAMES for prefix in ("spark.", "")]
    return with_startup({name: conf.get(name) for name in names if conf.contains(name)})


def of_application(spark: SparkSession) -> None:
    """Have a session trust whom its application trusts, and run what that runs, whatever the session had been told."""
    conf = cast(Any, spark.sparkContext)._conf
    for name in (*security_settings.OF_TRUST, security_settings.WORKER_PYTHON):
        for each in (name, f"spark.{name}"):
            spark.conf.unset(each)
    if conf.contains(security_settings.WORKER_PYTHON):
        spark.conf.set(security_settings.WORKER_PYTHON, conf.get(security_settings.WORKER_PYTHON))


def has_own_python(spark: SparkSession) -> bool:
    """Return whether a session has chosen another Python for its tasks than its application has."""
    name = security_settings.WORKER_PYTHON
    return bool(spark.conf.get(name, None) != cast(Any, spark.sparkContext)._conf.get(name))


def with_startup(settings: Mapping[str, str]) -> dict[str, str]:
    """Add the `hive_bitmap` settings that Spark was started with, without the prefix `spark.`, to a session's settings.

    At its start Spark drops all settings without that prefix. Settings of the session have precedence.

    >>> with_startup({"spark.hive_bitmap.strategy": "rows"})["hive_bitmap.strategy"]
    'rows'
    """
    prefix = "spark.hive_bitmap."
    started = {key.removeprefix("spark."): value for key, value in settings.items() if key.startswith(prefix)}
    return {**started, **settings}


def of_metastore(spark: SparkSession, names: Sequence[str]) -> dict[str, str]:
    """Return the settings of these names that the client of the metastore has, and `user.dir` of the JVM.

    Without a Hive metastore, there are none: Spark's catalog is in memory then.
    """
    classic, jvm = cast(Any, spark)._jsparkSession, cast(Any, spark._jvm)
    if classic.sparkContext().conf().get("spark.sql.catalogImplementation", "in-memory") != "hive":
        return {}
    conf = classic.sessionState().newHadoopConf()
    found = {name: conf.get(name) for name in names}
    return {"user.dir": str(jvm.System.getProperty("user.dir")), **{n: str(v) for n, v in found.items() if v}}


def of_stores(spark: SparkSession, prefixes: Sequence[str]) -> dict[str, str]:
    """Return the settings of the session's Hadoop configuration with these prefixes, and secrets of credential files.

    Raises StoreError if a credential file cannot be read.
    """
    conf = cast(Any, spark)._jsparkSession.sessionState().newHadoopConf()
    found = {}
    for prefix in prefixes:
        properties = jvm_reader.to_python(spark, conf.getPropsWithPrefix(prefix))
        found.update({prefix + name: value for name, value in properties.items()})
    jvm: Any = spark._jvm
    user = jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser()
    found[PREFIX + HDFS_USER] = str(user.getShortUserName())
    paths = {name: path for name, path in found.items() if name.endswith(CREDENTIAL_FILES) and path.strip()}
    for name, path in sorted(paths.items(), key=lambda pair: pair[0].startswith("fs.s3a.")):
        bucket = name.removeprefix("fs.s3a.bucket.").removesuffix(f".{CREDENTIAL_FILES}") if ".bucket." in name else ""
        for alias, secret in _credentials(spark, conf, path).items():
            inside = bucket and alias.startswith("fs.s3a.") and not alias.startswith("fs.s3a.bucket.")
            found[f"fs.s3a.bucket.{bucket}.{alias.removeprefix('fs.s3a.')}" if inside else alias] = secret
    return found


def _credentials(spark: SparkSession, conf: Any, path: str) -> dict[str, str]:
    """Return the secrets in Hadoop's credential files, by their aliases."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    jvm: Any = spark._jvm
    own = jvm.org.apache.hadoop.conf.Configuration(conf)
    own.set(f"hadoop.{CREDENTIAL_FILES}", path)
    try:
        return {
            alias: "".join(provider.getCredentialEntry(alias).getCredential())
            for provider in jvm.org.apache.hadoop.security.alias.CredentialProviderFactory.getProviders(own)
            for alias in provider.getAliases()
        }
    except Py4JJavaError as e:
        reason = str(e.java_exception.toString()).partition("\n")[0]
        raise StoreError(f"the credential files {path} cannot be read: {reason} ({CREDENTIAL_FILES})") from e
