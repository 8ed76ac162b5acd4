"""Find the extension's jar, and check the jar in a JVM.

A server has the jar that its configuration names, which may belong to another version of hive_bitmap than this Python.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from hive_bitmap.spark.packages import file_of

JAR = file_of("hive_bitmap.spark.catalyst", "hive-bitmap.jar")
EXTENSION = "hive_bitmap.catalyst.BitmapExtension"
PROTOCOL = 11  # as in PythonRequest.java, which says when to raise it


def protocol_mismatch(question: Mapping[str, Any]) -> str | None:
    """Say why this Python cannot answer a `Question`.

    The text also says which jar to use. `question` is the JSON. None if this Python can answer.
    """
    jar_protocol = question.get("protocol")
    if jar_protocol == PROTOCOL:
        return None
    jar_has = "no protocol number" if jar_protocol is None else f"protocol {jar_protocol}"
    return (
        f"the jar of hive_bitmap in Spark's JVM has {jar_has} and {sys.executable} has protocol {PROTOCOL}: "
        f"start Spark with the jar that `hive-bitmap jar` prints for this Python, {JAR}"
    )
