"""Reach the Java half, and let it call this process.

The configuration of a server names the jar of the Java half, which may be from another version of hive_bitmap than
this Python.

Any local program can connect to py4j's port for calls from the JVM, so callers have to show a token. PySpark itself
opens the port without a token, for this package or for `foreachBatch`. The token is not the gateway's secret: a
program that takes over the port of an ended process learns at most the token, which does not let it call the JVM.
"""

from __future__ import annotations

import atexit
import secrets
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from importlib.resources import as_file, files
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from hive_bitmap.errors import Unsupported

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_copies = ExitStack()
atexit.register(_copies.close)


def file_of(package: str, name: str) -> Path:
    """Return the path of a file that the JVM reads.

    If `package` is in a zip (`spark.submit.pyFiles`), each call extracts a copy, which lasts as long as the process.
    """
    return _copies.enter_context(as_file(files(package) / name))


JAR = file_of("hive_bitmap.spark.catalyst", "hive-bitmap.jar")
EXTENSION = "hive_bitmap.catalyst.BitmapExtension"
PROTOCOL = 17  # as in PythonRequest.java, which says when to raise the number
_BRIDGE = "hive_bitmap.catalyst.Bridge"
_bridges: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # the Java half's `Bridge`, by py4j's gateway
_prepared: WeakSet[SparkContext] = WeakSet()
_preparing = Lock()
_opening = Lock()


def protocol_mismatch(question: Mapping[str, Any]) -> str | None:
    """Return why this Python cannot answer a `Question`, and which jar to use.

    `question` is the question as JSON. Return None if this Python can answer.
    """
    jar_protocol = question.get("protocol")
    if jar_protocol == PROTOCOL:
        return None
    jar_has = "no protocol number" if jar_protocol is None else f"protocol {jar_protocol}"
    return (
        f"the jar of hive_bitmap in Spark's JVM has {jar_has} and {sys.executable} has protocol {PROTOCOL}: "
        f"start Spark with the jar that `hive-bitmap jar` prints for this Python, {JAR}"
    )


def bridge(spark: SparkSession) -> Any:
    """Return the `Bridge` of the session's JVM.

    The jar is added to driver and executors unless Spark has it already. If Spark was stopped and started again in the
    JVM, the result is the object that belongs to the earlier SparkContext. The class of a new object would come from
    another class loader, but py4j remembers methods only by the name of their class.
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
    """Return the class of the bridge, after adding the jar to Spark if necessary.

    If an earlier context has loaded the class (`is_loaded`), a missing jar is added for executors only, and the result
    is None.
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


def open_port(spark: SparkSession) -> None:
    """Open the port for calls from the JVM of a session.

    An open port stays open. Afterwards the port accepts only callers with the token. Raise Unsupported if the JVM has
    the jar of another version.
    """
    from py4j.java_gateway import JavaObject  # type: ignore[import-untyped]
    from pyspark.java_gateway import ensure_callback_server_started

    gateway: Any = spark.sparkContext._gateway
    parameters, jvm = gateway.callback_server_parameters, bridge(spark)
    with _opening:
        is_new = parameters.auth_token is None
        if is_new:
            parameters.auth_token = secrets.token_hex(32)
        ensure_callback_server_started(gateway)
        if is_new:
            _show_token(jvm, JavaObject("GATEWAY_SERVER", gateway._gateway_client), parameters)


def _show_token(jvm: Any, server: Any, parameters: Any) -> None:
    """Have the JVM show the token when it calls this process.

    `jvm` is the Java `Bridge`, `server` is py4j's gateway server in the JVM, and `parameters` has the token of the
    port. Raise Unsupported if the jar of the JVM cannot show a token; the port then stays as PySpark opens it.
    """
    from py4j.protocol import Py4JError

    try:
        jvm.authenticate(server, parameters.auth_token)
    except Py4JError as e:
        parameters.auth_token = None
        raise Unsupported(
            "the JVM has the jar of another version of hive_bitmap: start it with the one that `hive-bitmap jar` names"
        ) from e
