"""How long a query waits for its plan: the time in which Spark lists files does not count."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from py4j.protocol import Py4JJavaError

import hive_bitmap
from hive_bitmap.spark.jvm_bridge import bridge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LISTING, SECONDS = 1.0, 0.2


class Listing:
    """A supplier of the nanoseconds of a listing that takes LISTING seconds."""

    class Java:
        implements: ClassVar = ["java.util.function.LongSupplier"]

    def __init__(self) -> None:
        self.began = time.monotonic()

    def getAsLong(self) -> int:  # noqa: N802 - as in Java
        return int(1e10 + 1e9 * min(time.monotonic() - self.began, LISTING))  # more than an int of Java


def test_the_time_of_a_listing_does_not_count(spark: SparkSession) -> None:
    hive_bitmap.enable(spark)
    try:
        jvm: Any = spark._jvm
        gate = bridge(spark).getClass().getClassLoader().loadClass("hive_bitmap.catalyst.python.PlanningGate")
        [wait] = [method for method in gate.getDeclaredMethods() if method.getName() == "await"]
        wait.setAccessible(True)
        arguments, listing = jvm.java.util.ArrayList(), Listing()
        future = jvm.java.util.concurrent.CompletableFuture()
        for argument in (future, spark.sparkContext._jsc.sc(), SECONDS, listing):
            arguments.add(argument)
        with pytest.raises(Py4JJavaError, match="TimeoutException"):
            wait.invoke(None, arguments.toArray())
        assert time.monotonic() - listing.began >= LISTING + SECONDS / 2
    finally:
        hive_bitmap.disable(spark)
