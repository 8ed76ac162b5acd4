"""Choose the Python that runs hive_bitmap's tasks.

Spark runs `PYSPARK_PYTHON`, by default the first `python3` on the PATH. If Spark is local and no Python is configured,
hive_bitmap's tasks run the Python of this process, while functions of users keep Spark's default. If tasks fail,
`lack` checks which packages their Python lacks.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hive_bitmap.errors import MissingPackage
from hive_bitmap.spark.metastore import jvm_reader
from hive_bitmap.spark.metastore.jvm_settings import WORKER_PYTHON
from hive_bitmap.spark.packages import TASK

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

log = logging.getLogger(__name__)
_OF_PYTHON = re.compile(
    r"ModuleNotFoundError|ImportError|PACKAGE_NOT_INSTALLED|PYTHON_VERSION_MISMATCH|[Pp]ython worker"
)
# Run by any Python of the executors: prints the host, the program, its version and the missing packages.
_DESCRIBE = """
import json, socket, sys
from importlib.util import find_spec
lacks = [name for name in sys.argv[1:] if find_spec(name) is None]
print(json.dumps([socket.gethostname(), sys.executable, "%d.%d" % sys.version_info[:2], lacks]))
"""


def map_in_arrow(frame: DataFrame, run: Callable[..., Any], schema: StructType | str) -> DataFrame:
    """Return `frame.mapInArrow(run, schema)`.

    If Spark is local and no Python is configured, tasks run the Python of this process (`runs_own_python`).
    """
    spark = frame.sparkSession
    if not jvm_reader.available(spark) or not runs_own_python(spark.sparkContext):
        return frame.mapInArrow(run, schema)
    from pyspark.sql import DataFrame
    from pyspark.sql.pandas.functions import pandas_udf
    from pyspark.util import PythonEvalType

    function: Any = pandas_udf(run, schema, PythonEvalType.SQL_MAP_ARROW_ITER_UDF)  # type: ignore[call-overload]
    function._unwrapped._judf_placeholder = _run_by(sys.executable, function._unwrapped._judf, spark)
    column = function(*[frame[name] for name in frame.columns])
    return DataFrame(frame._jdf.mapInArrow(column._jc, False, None), spark)


def runs_own_python(context: SparkContext) -> bool:
    """Return whether tasks run this process's Python.

    Tasks run this Python if Spark is local and no Python is configured.
    """
    is_configured = "PYSPARK_PYTHON" in os.environ or any(
        context._conf.contains(name) for name in ("spark.pyspark.python", WORKER_PYTHON)
    )
    is_local = str(context.master).startswith("local") and bool(sys.executable)
    return is_local and not is_configured and context.pythonExec == "python3"


def _run_by(python: str, function: Any, spark: SparkSession) -> Any:
    """Copy a Python function, so that the interpreter `python` runs the copy.

    `function` and the copy are the objects of the function in the JVM.
    """
    jvm: Any = spark._jvm
    fields = _fields(function)
    body = _fields(fields[1])
    body[3] = python
    fields[1] = jvm.org.apache.spark.api.python.SimplePythonFunction(*body)
    return jvm.org.apache.spark.sql.execution.python.UserDefinedPythonFunction(*fields)


def _fields(value: Any) -> list[Any]:
    """Return the fields of a Scala case class.

    The number of fields depends on the version of Spark.
    """
    return [value.productElement(at) for at in range(value.productArity())]


def lack(spark: SparkSession, error: Exception) -> str:
    """Return which Python ran the failed tasks, and what this Python lacks.

    Return "" if the tasks failed for another cause, or if the error already names the Python. To examine the Python of
    the executors, a small job runs it without a PySpark worker.
    """
    text = str(error)
    if MissingPackage.__name__ in text or not _OF_PYTHON.search(text) or not jvm_reader.available(spark):
        return ""
    context = spark.sparkContext
    ran = sys.executable if runs_own_python(context) else context.pythonExec
    for host, python, version, missing in _executor_pythons(context, ran):
        if version != context.pythonVer:
            return (
                f"an executor on {host} runs {python}, which is Python {version}, but the driver runs Python "
                f"{context.pythonVer}: name one Python for both in PYSPARK_PYTHON, before Spark starts"
            )
        if missing:
            return (
                f"an executor on {host} runs {python}, which has no {', '.join(missing)}: {python} -m pip install "
                f"{' '.join(missing)} (on every machine that runs executors), or name another Python in "
                "PYSPARK_PYTHON, before Spark starts"
            )
    return ""


def _executor_pythons(context: SparkContext, python: str) -> list[list[Any]]:
    """Return a description of the Python `python` from each task.

    A description has the host, the path of the interpreter, its version and the missing packages. If the Python cannot
    be run, the reason is logged and the result is empty.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    tasks = min(context.defaultParallelism, 64)
    jsc: Any = context._jsc
    try:
        lines = jsc.parallelize(list(range(tasks)), tasks).pipe([python, "-c", _DESCRIBE, *TASK]).collect()
    except Py4JJavaError as e:
        log.warning("the Python of executors, %s, does not run: %s", python, e.java_exception.getMessage())
        return []
    return [json.loads(line) for line in lines]
