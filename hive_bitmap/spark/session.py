"""Create a Spark session, or return the active one unchanged.

By default the session is local, with its Derby metastore in the warehouse folder. Only one process at a time can use
such a warehouse. If the warehouse is None, the existing configuration of Spark or Hive is used.
"""

from __future__ import annotations

import os
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hive_bitmap.core.planning.settings import problems
from hive_bitmap.errors import HiveBitmapError, InvalidProperty
from hive_bitmap.spark import class_archive, java
from hive_bitmap.spark.jvm_bridge import file_of
from hive_bitmap.spark.packages import require, require_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A configuration with any of these properties names a metastore.
_METASTORE_KEYS = ("hive.metastore.uris", "javax.jdo.option.ConnectionURL")


def session(
    warehouse: str | os.PathLike[str] | None = "warehouse",
    *,
    app_name: str = "hive_bitmap",
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the active session, or create one.

    A new session uses the folder `warehouse`, or if that is None, the existing configuration of Spark or Hive. Queries
    of a new session use the indexes (see `hive_bitmap.enable`). `master` defaults to `local[*]` for a warehouse
    folder, otherwise to the master of the configuration. `conf` overrides any setting.

    Raises HiveBitmapError if Java or a package is missing or too old, if another process uses the warehouse, and if
    the warehouse is None but no configuration names a metastore. Raises InvalidProperty for an unknown setting of
    hive_bitmap in `conf`.
    """
    require()
    if setting_problems := problems(conf or {}):
        raise InvalidProperty(setting_problems[0])
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    settings = _configured() if warehouse is None else _embedded(Path(warehouse).absolute())
    if "SPARK_REMOTE" in os.environ:
        require_connect()
    if "SPARK_REMOTE" not in os.environ or warehouse is not None:
        java.require()
    builder = SparkSession.builder.appName(app_name)
    for name, value in {**settings, **(conf or {})}.items():
        builder = builder.config(name, value)
    if master or warehouse is not None:
        builder = builder.master(master or "local[*]")
    if "SPARK_REMOTE" not in os.environ:
        builder = builder.enableHiveSupport()
    with java.started_with(*class_archive.options()):
        spark = builder.getOrCreate()
    if warehouse is not None:
        _open_metastore(spark, Path(warehouse).absolute())
    from hive_bitmap.spark.catalyst.enabling import enable
    from hive_bitmap.spark.metastore import jvm_reader

    if jvm_reader.available(spark):
        enable(spark)
    return spark


def default_warehouse() -> str | None:
    """Return the warehouse folder for commands that name none.

    Return None if SPARK_REMOTE is set or a configuration names a metastore.
    """
    return None if "SPARK_REMOTE" in os.environ or any(_named_metastores()) else "warehouse"


def _embedded(warehouse: Path) -> dict[str, str]:
    """Return the settings of a local session.

    The metastore of the session is in a hidden folder, which cannot be the folder of a table. This function creates the
    folder, and sets PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON to the Python of this process. Raises HiveBitmapError if
    `warehouse` is not a folder.
    """
    metastore = warehouse / ".metastore"
    if warehouse.exists() and not warehouse.is_dir():
        raise HiveBitmapError(f"warehouse {warehouse} is not a folder")
    metastore.mkdir(parents=True, exist_ok=True)
    # Workers must run the same interpreter that pickles functions for them.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    log4j = file_of("hive_bitmap.spark", "log4j2.properties").as_uri()
    return {
        "spark.sql.warehouse.dir": str(warehouse),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={metastore / 'derby'};create=true",
        "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
        "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
        "spark.driver.extraJavaOptions": (
            f'-Dlog4j2.configurationFile={log4j} "-Dderby.stream.error.file={metastore / "derby.log"}"'
        ),
        "spark.driver.memory": "2g",
        # The loopback address works without DNS, so also on a laptop without a network.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }


def _configured() -> dict[str, str]:
    """Return the settings of the hive-site.xml in HIVE_CONF_DIR.

    HIVE_CONF_DIR is not on Spark's class path, so Spark would not find these settings. The result is empty if
    HIVE_CONF_DIR is not set, or if SPARK_REMOTE is set. Unless PYSPARK_PYTHON is set, this function sets it to the
    Python of this process. Raises HiveBitmapError if no configuration names a metastore.
    """
    if default_warehouse() is not None:
        raise HiveBitmapError(
            "no existing configuration names a metastore (hive-site.xml or spark-defaults.conf in SPARK_CONF_DIR, "
            "SPARK_HOME/conf, HADOOP_CONF_DIR or HIVE_CONF_DIR; SPARK_REMOTE); name a warehouse folder"
        )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "SPARK_REMOTE" in os.environ or "HIVE_CONF_DIR" not in os.environ:
        return {}
    properties = _hive_site(Path(os.environ["HIVE_CONF_DIR"]) / "hive-site.xml")
    return {f"spark.hadoop.{name}": value for name, value in properties.items()}


def _named_metastores() -> Iterator[str]:
    """Yield the metastores that configuration files name.

    The files are hive-site.xml and spark-defaults.conf in the folders of Spark and Hive.
    """
    folders = [os.environ.get(name) for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "HIVE_CONF_DIR")]
    if "SPARK_HOME" in os.environ:
        folders.append(os.path.join(os.environ["SPARK_HOME"], "conf"))
    for folder in filter(None, folders):
        properties = _hive_site(Path(folder) / "hive-site.xml") | _spark_defaults(Path(folder) / "spark-defaults.conf")
        yield from (properties[key] for key in _METASTORE_KEYS if properties.get(key))


def _hive_site(path: Path) -> dict[str, str]:
    """Return the properties of a Hadoop configuration file.

    The result is empty for a missing file.
    """
    if not path.is_file():
        return {}
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as e:
        raise HiveBitmapError(f"{path} is not a Hadoop configuration file: {e}") from e
    return {
        property.findtext("name", "").strip(): property.findtext("value", "").strip()
        for property in root.iter("property")
    }


def _spark_defaults(path: Path) -> dict[str, str]:
    """Return the properties of a spark-defaults.conf.

    The prefix `spark.hadoop.` is removed from the names. The lines of the file are `key value` or `key=value`. The
    result is empty for a missing file.
    """
    if not path.is_file():
        return {}
    lines = (line.strip() for line in path.read_text().splitlines())
    pairs = (line.replace("=", " ", 1).split(None, 1) for line in lines if not line.startswith("#"))
    return {pair[0].removeprefix("spark.hadoop."): pair[1] for pair in pairs if len(pair) == 2}


def _open_metastore(spark: SparkSession, warehouse: Path) -> None:
    """Access the metastore, to fail early if another process uses the warehouse."""
    from pyspark.errors import PySparkException

    try:
        spark.catalog.databaseExists("default")
    except PySparkException as e:
        spark.stop()
        raise HiveBitmapError(
            f"the metastore of warehouse {warehouse} cannot be opened: if another process uses that warehouse, end it "
            f"(one process at a time), or use another folder. Details: {warehouse / '.metastore' / 'derby.log'}"
        ) from e
