"""The object of the JVM by which Python reaches the Java half."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hive_bitmap.catalyst.extension_jar import JAR

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BRIDGE = "hive_bitmap.catalyst.Bridge"


@lru_cache(maxsize=8)
def bridge(spark: SparkSession) -> Any:
    """Return the JVM's `Bridge`. The jar is added to driver and executors unless the session has it already."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    jvm: Any = spark._jvm
    loader = spark._jsparkSession.sharedState().jarClassLoader()
    try:
        bridge_class = loader.loadClass(_BRIDGE)
    except Py4JJavaError:
        loader.addURL(jvm.java.io.File(str(JAR)).toURI().toURL())
        spark.sparkContext._jsc.addJar(str(JAR))
        bridge_class = loader.loadClass(_BRIDGE)
    gateway: Any = spark.sparkContext._gateway
    classes, objects = gateway.new_array(jvm.java.lang.Class, 0), gateway.new_array(jvm.java.lang.Object, 0)
    return bridge_class.getConstructor(classes).newInstance(objects)
