"""Define the command `doctor`: check what hive_bitmap needs, and say what to fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from hive_bitmap.cli.invocation import Endpoint, one_line
from hive_bitmap.cli.output import format_option, print_records
from hive_bitmap.core.explaining.measures import counted
from hive_bitmap.core.explaining.reports import Field

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FIELDS = (Field("check", "check"), Field("state", "state"), Field("detail", "what was found, or what to do"))
_NO_SESSION = "not checked: no Spark session started"


@click.command()
@format_option
@click.pass_context
def doctor(context: click.Context, format_: str) -> None:
    """Check Java, packages, Spark, metastore, executors, stores and the optimizer rule.

    Each line says what was found, or what to do. The exit status is 1 if something is wrong. Nothing is changed:
    without a local warehouse, the checks use an empty warehouse in a temporary folder.

    \b
    Example:
      hive-bitmap doctor
    """
    endpoint: Endpoint = context.obj
    with _without_traces(endpoint) as tested:
        records = [*_local_checks(), *_session_checks(tested)]
    print_records(format_, records, _FIELDS, "")
    if any(record["state"] != "ok" for record in records):
        context.exit(1)


@contextmanager
def _without_traces(endpoint: Endpoint) -> Iterator[Endpoint]:
    """Yield an endpoint whose session creates no warehouse.

    If a session with `endpoint` would create a warehouse, the yielded endpoint has a temporary folder as its warehouse.
    Otherwise `endpoint` itself is yielded.
    """
    from hive_bitmap.spark.session import default_warehouse

    warehouse = endpoint.warehouse if endpoint.warehouse is not None else default_warehouse()
    if warehouse is None or Path(warehouse).exists():
        yield endpoint
        return
    with TemporaryDirectory() as folder:
        Path(folder, ".metastore").mkdir()  # suppresses the message about a new warehouse
        yield replace(endpoint, warehouse=folder)


def _local_checks() -> Iterator[dict[str, str]]:
    from hive_bitmap.spark import java, packages

    def java_version() -> str:
        java.require()
        path = java.executable()
        return f"Java {java.version(path)}, {path}"

    def package_versions() -> str:
        packages.require(packages.PROGRAM)
        return ", ".join(f"{name} {_version(name)}" for name in packages.PROGRAM if name != "pyspark")

    yield checked("java", java_version)
    yield checked("packages", package_versions)
    yield checked("pyspark", lambda: f"PySpark {_version('pyspark')}")


def _session_checks(endpoint: Endpoint) -> Iterator[dict[str, str]]:
    checks: list[tuple[str, Callable[[SparkSession], str]]] = [
        ("metastore", _metastore),
        ("executors", _executors),
        ("stores", _stores),
        ("optimizer rule", _rule),
    ]
    try:
        with endpoint.session(jobs=False) as spark:
            yield {"check": "spark", "state": "ok", "detail": f"Spark {spark.version}, {_master(spark)}"}
            for name, check in checks:
                yield checked(name, lambda check=check: check(spark))  # type: ignore[misc]
    except GeneratorExit:
        raise
    except Exception as e:  # noqa: BLE001 - any problem becomes a line of the report
        yield {"check": "spark", "state": "wrong", "detail": one_line(e)}
        for name, _ in checks:
            yield {"check": name, "state": "unknown", "detail": _NO_SESSION}


def checked(name: str, check: Callable[[], str]) -> dict[str, str]:
    """Run a check and return its line of the report.

    `name` is the name of the check in the report. `check` returns what it found, and raises an error if something is
    wrong.
    """
    try:
        return {"check": name, "state": "ok", "detail": check()}
    except Exception as e:  # noqa: BLE001 - any problem becomes a line of the report
        return {"check": name, "state": "wrong", "detail": one_line(e)}


def _version(name: str) -> str:
    from importlib.metadata import version

    return version(name)


def _master(spark: SparkSession) -> str:
    return str(spark.conf.get("spark.master", "") or "by Spark Connect")


def _metastore(spark: SparkSession) -> str:
    from hive_bitmap.spark.metastore import metastore
    from hive_bitmap.spark.registry.catalog import indexed_tables

    metastore.require_hive(spark)
    names = metastore.database_names(spark)
    indexed = len(indexed_tables(spark, None))
    of_tables = f"{counted(indexed, 'table')} of {spark.catalog.currentDatabase()} with indexes"
    return f"{counted(len(names), 'database')}; {of_tables}"


def _executors(spark: SparkSession) -> str:
    from hive_bitmap.spark.tasks.distribution import in_tasks, parallelism

    cores = parallelism(spark)
    versions: set[Any] = set(in_tasks(spark, list(range(cores)), _python_of_task))
    return f"{cores} concurrent tasks; Python {', '.join(sorted(versions))} with the packages it needs"


def _python_of_task(_: int) -> str:
    import platform

    return platform.python_version()


def _stores(spark: SparkSession) -> str:
    from hive_bitmap.core import stores
    from hive_bitmap.spark.metastore import metastore, session_settings
    from hive_bitmap.spark.registry import locations

    session_settings.use_stores(spark)
    folder = locations.default_folder(spark, metastore.split_name(spark, "t")[1])
    state = "is reachable" if stores.exists(folder) else "does not exist yet; the first index creates it"
    return f"{folder}, the default folder of indexes, {state}"


def _rule(spark: SparkSession) -> str:
    from hive_bitmap.spark.catalyst.enabling import is_enabled
    from hive_bitmap.spark.metastore import jvm_reader

    if not jvm_reader.available(spark):
        return "Spark Connect: the server needs the jar and the extension, see the guide"
    if not is_enabled(spark):
        raise RuntimeError("the session does not use indexes: hive_bitmap.enable(spark)")
    return "queries of this session use indexes, and the JVM can call this Python"
