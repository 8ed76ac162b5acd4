"""The jar of Spark's extension: where it is, and whether the one that a JVM has loaded belongs to this Python.

A server has the jar that its configuration names, which may be that of another version of hive_bitmap.
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
    """Say why this Python cannot answer a `Question`, given as its JSON, and which jar to use; None if it can."""
    theirs = question.get("protocol")
    if theirs == PROTOCOL:
        return None
    jar_has = "no protocol number" if theirs is None else f"protocol {theirs}"
    return (
        f"the jar of hive_bitmap in Spark's JVM has {jar_has} and {sys.executable} has protocol {PROTOCOL}: "
        f"start Spark with the jar that `hive-bitmap jar` prints for this Python, {JAR}"
    )
