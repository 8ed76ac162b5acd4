"""Reach the Java half through an object of the JVM."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from hive_bitmap.spark.catalyst.extension_jar import JAR

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_BRIDGE = "hive_bitmap.catalyst.Bridge"
_bridges: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # by py4j's gateway
_prepared: WeakSet[SparkContext] = WeakSet()
_preparing = Lock()


def bridge(spark: SparkSession) -> Any:
    """Return the `Bridge` of the session's JVM.

    The jar is added to driver and executors unless Spark has it already. The object stays the same if Spark is stopped
    and started again in the JVM: each SparkContext has its own class loader, which would load the class again, and py4j
    remembers methods by the name of their class.
    """
    context = spark.sparkContext
    gateway: Any = context._gateway
    with _preparing:
        if context not in _prepared:
            bridge_class = _class_for(spark, gateway in _bridges)
            if gateway not in _bridges:
                _bridges[gateway] = _new(gateway, bridge_class)
            _prepared.add(context)
        return _bridges[gateway]


def _class_for(spark: SparkSession, is_loaded: bool) -> Any:
    """Give Spark the jar if it lacks it, and return the class.

    If an earlier context has loaded the class (`is_loaded`), only executors get the jar, and the result is None.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    loader = spark._jsparkSession.sharedState().jarClassLoader()
    try:
        return loader.loadClass(_BRIDGE)
    except Py4JJavaError:
        spark.sparkContext._jsc.addJar(str(JAR))
        if is_loaded:
            return None
        jvm: Any = spark._jvm
        loader.addURL(jvm.java.io.File(str(JAR)).toURI().toURL())
        return loader.loadClass(_BRIDGE)


def _new(gateway: Any, bridge_class: Any) -> Any:
    classes = gateway.new_array(gateway.jvm.java.lang.Class, 0)
    objects = gateway.new_array(gateway.jvm.java.lang.Object, 0)
    return bridge_class.getConstructor(classes).newInstance(objects)
