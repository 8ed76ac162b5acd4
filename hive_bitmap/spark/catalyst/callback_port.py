"""Open py4j's port for calls from the JVM, guarded by a token.

Any local program can connect to the port, so callers have to show a token. PySpark itself opens the port without one,
for this or for `foreachBatch`. The token differs from the gateway's secret: a program that takes over the port of an
ended process learns nothing with which it could call the JVM.
"""

from __future__ import annotations

import secrets
from threading import Lock
from typing import TYPE_CHECKING, Any

from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.catalyst.jvm_bridge import bridge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_opening = Lock()


def open_port(spark: SparkSession) -> None:
    """Open the port for the JVM of a session.

    A port that is open stays so. From then on it takes only callers with the token. Raise Unsupported if the JVM has
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
    """Have the JVM show the token.

    Raise Unsupported if its jar cannot do that; the port is then as PySpark opens it.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    try:
        jvm.authenticate(server, parameters.auth_token)
    except Py4JError as e:
        parameters.auth_token = None
        raise Unsupported(
            "the JVM has the jar of another version of hive_bitmap: start it with the one that `hive-bitmap jar` names"
        ) from e
