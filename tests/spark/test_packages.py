"""Test the errors about missing or outdated packages: at the first call, in the program, and on an executor."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

import hive_bitmap
from hive_bitmap.errors import BuildFailed, HiveBitmapError, MissingPackage
from hive_bitmap.spark import packages
from hive_bitmap.spark.tasks.distribution import in_tasks
from tests.asking import under

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETUP = Path(__file__).parents[2] / "setup.cfg"
NOTHING: Mapping[str, str] = MappingProxyType({})


def python_without(folder: Path, *names: str, older: Mapping[str, str] = NOTHING) -> Path:
    "A Python with all that this one has but for packages of these names, and with others as if they were `older`."
    venv.create(folder / "env", symlinks=True)
    home = sysconfig.get_path("purelib", vars={"base": str(folder / "env"), "platbase": str(folder / "env")})
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        package = path.name.partition("-")[0].removeprefix("__editable___").removeprefix("__editable__.")
        is_version = path.suffix == ".dist-info" and package.lower() in older
        if not package.startswith(names or "-") and not is_version and package != "__pycache__":
            (Path(home) / path.name).symlink_to(path)
    for name, version in older.items():
        information = Path(home) / f"{name}-{version}.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    # Spark's Python workers import from their current folder, which would otherwise be the checkout.
    starter = folder / "python"
    starter.write_text(f'#!/bin/sh\ncd "{folder}" && exec "{folder}/env/bin/python" "$@"\n')
    starter.chmod(0o755)
    return starter


def run(python: Path, *arguments: str) -> tuple[int, str]:
    "Return the exit status and the error output of a process."
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([python, *arguments], capture_output=True, text=True, check=False, env=bare)
    return done.returncode, done.stderr.strip()


def test_files_of_a_package_that_came_as_a_zip_are_files(tmp_path: Path) -> None:
    package = Path(hive_bitmap.__file__).parent
    with zipfile.ZipFile(tmp_path / "sent.zip", "w") as packed:
        for path in package.rglob("*"):
            packed.write(path, path.relative_to(package.parent))
    program = (
        "from hive_bitmap.spark.jvm_bridge import file_of\n"
        "print(file_of('hive_bitmap.spark.catalyst', 'hive-bitmap.jar').stat().st_size)"
    )
    path = os.pathsep.join([str(tmp_path / "sent.zip"), sysconfig.get_path("purelib")])
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.stdout.split() == [str((package / "spark" / "catalyst" / "hive-bitmap.jar").stat().st_size)], (
        done.stderr
    )


def test_what_is_asked_for_is_what_is_declared() -> None:
    declared = configparser.ConfigParser()
    declared.read(SETUP)
    names = [re.split("[<>=]", line)[0] for line in declared["options"]["install_requires"].split()]
    assert sorted(packages.PROGRAM) == sorted(names)


def test_all_that_users_install_has_a_lower_bound() -> None:
    declared = configparser.ConfigParser()
    declared.read(SETUP)
    extras = declared["options.extras_require"]
    lines = f"{declared['options']['install_requires']}\n{extras['connect']}\n{extras['hive']}".split()
    assert [line for line in lines if ">=" not in line] == []


@pytest.mark.parametrize("call", ["hive_bitmap.build", "hive_bitmap.session()", "hive_bitmap.sql(None, 'SELECT 1')"])
def test_the_first_call_says_what_to_install(tmp_path: Path, call: str) -> None:
    python = python_without(tmp_path, "pandas", "pyorc", older={"duckdb": "1.1.3"})
    status, error = run(python, "-c", f"import hive_bitmap\n{call}")
    assert status == 1
    assert error.splitlines()[-1] == (
        "hive_bitmap.errors.MissingPackage: hive_bitmap needs pandas<3,>=2.2.2, duckdb>=1.2, pyorc>=0.9, but pandas is "
        "not installed and duckdb is 1.1.3 and pyorc is not installed: "
        f"{tmp_path}/env/bin/python -m pip install 'pandas<3,>=2.2.2' 'duckdb>=1.2' 'pyorc>=0.9'"
    )


def test_a_package_may_be_too_new(tmp_path: Path) -> None:
    python = python_without(tmp_path, older={"pandas": "3.1"})
    status, error = run(python, "-c", "import hive_bitmap\nhive_bitmap.build")
    assert status == 1 and "hive_bitmap needs pandas<3,>=2.2.2, but pandas is 3.1: " in error


def test_versions_are_compared_with_a_package(tmp_path: Path) -> None:
    python = python_without(tmp_path, "packaging")
    status, error = run(python, "-c", "import hive_bitmap\nhive_bitmap.build")
    assert status == 1 and "hive_bitmap needs packaging, but packaging is not installed: " in error


def test_the_program_says_it_in_one_line(tmp_path: Path) -> None:
    python = python_without(tmp_path, "click", older={"pyarrow": "17.0.0"})
    status, error = run(python, "-m", "hive_bitmap", "show", "t")
    assert (status, error) == (
        1,
        "hive-bitmap: hive_bitmap needs pyarrow>=21, click>=8.1, but pyarrow is 17.0.0 and click is not installed: "
        f"{tmp_path}/env/bin/python -m pip install 'pyarrow>=21' 'click>=8.1'",
    )


def test_spark_connect_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost:1")
    status, error = run(python_without(tmp_path, "grpc"), "-m", "hive_bitmap", "show", "t")
    assert (status, error) == (
        1,
        "hive-bitmap: SPARK_REMOTE is set, but Spark Connect needs grpc and grpc_status, which is not installed: "
        f"{tmp_path}/env/bin/python -m pip install 'hive_bitmap[connect]'",
    )


def test_it_is_an_error_of_ours_and_of_an_import() -> None:
    assert issubclass(MissingPackage, HiveBitmapError) and issubclass(MissingPackage, ImportError)


def test_a_package_without_a_version_is_tried(tmp_path: Path) -> None:
    python = python_without(tmp_path)
    for information in (tmp_path / "env").rglob("pyspark-*.dist-info"):
        information.unlink()
    assert run(python, "-c", "import hive_bitmap; hive_bitmap.build") == (0, "")


def executors_run(spark: SparkSession, python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    spark.sql("CREATE TABLE t (k int) STORED AS PARQUET")
    spark.sql("INSERT INTO t SELECT id % 7 FROM range(1000)")


def test_an_executor_says_what_it_lacks(
    spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = python_without(tmp_path, "pyorc", older={"numpy": "1.26.4"})
    executors_run(spark, python, monkeypatch)
    problem = (
        r"an executor on \S+: hive_bitmap needs numpy>=2, pyorc>=0.9, but numpy is 1.26.4 and pyorc is not installed: "
        rf"{tmp_path}/env/bin/python -m pip install 'numpy>=2' 'pyorc>=0.9' \(on every machine that runs executors\)$"
    )
    with pytest.raises(BuildFailed, match=f"^the build failed, the published index is untouched: {problem}"):
        hive_bitmap.build(spark, "t", ["k"])


@pytest.mark.parametrize("missing", [("pyarrow",), ("pyarrow", "numpy", "duckdb")])
def test_an_executor_without_pyarrow(
    spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: tuple[str, ...]
) -> None:
    """PySpark's own worker fails there, before it comes to what checks the packages."""
    executors_run(spark, python_without(tmp_path, *missing), monkeypatch)
    python = f"{tmp_path}/env/bin/python"
    problem = (
        rf"an executor on \S+ runs {python}, which has no {', '.join(missing)}: {python} -m pip install "
        rf"{' '.join(missing)} \(on every machine that runs executors\), or name another Python in "
        "PYSPARK_PYTHON, before Spark starts$"
    )
    with pytest.raises(BuildFailed, match=f"^the build failed, the published index is untouched: {problem}"):
        hive_bitmap.build(spark, "t", ["k"])
    with pytest.raises(MissingPackage, match=f"^{problem}"):
        in_tasks(spark, [1], str)


def test_an_executor_of_another_version(spark: SparkSession, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    executors_run(spark, Path(sys.executable), monkeypatch)
    own = spark.sparkContext.pythonVer
    monkeypatch.setattr(spark.sparkContext, "pythonVer", "3.8")
    problem = (
        rf"an executor on \S+ runs \S+, which is Python {own}, but the driver runs Python 3\.8: name one Python for"
    )
    with pytest.raises(BuildFailed, match=f"^the build failed, the published index is untouched: {problem}"):
        hive_bitmap.build(spark, "t", ["k"])


def test_a_python_that_cannot_be_run(
    spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executors_run(spark, tmp_path / "nowhere", monkeypatch)
    with pytest.raises(BuildFailed, match=rf'Cannot run program "{tmp_path}/nowhere"'):
        hive_bitmap.build(spark, "t", ["k"])


PROGRAM = """
import sys
from pyspark.sql import SparkSession
import hive_bitmap

spark = (
    SparkSession.builder.master("local[2]").enableHiveSupport().config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
)
hive_bitmap.enable(spark)
spark.sql("CREATE TABLE t USING parquet AS SELECT id % 7 AS k, id AS v FROM range(1000)")
print(hive_bitmap.build(spark, "t", ["k"])[0].base_rows)
spark.conf.set("hive_bitmap.driver_read_bytes", "0")
print(hive_bitmap.scan(spark, "t", "k = 3", strategy="rows").count())
print(spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).first())
"""


@pytest.mark.spark
def test_a_local_spark_runs_our_tasks_in_the_python_of_the_program(tmp_path: Path) -> None:
    """An environment that is called by its path, with another `python3` on the PATH, which lacks what tasks need."""
    other = python_without(tmp_path, "pyarrow", "duckdb")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(other)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={**environment, "PATH": f"{tmp_path}/bin:{environment['PATH']}", "PYTHONPATH": str(SETUP.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["1000", "143", f"{tmp_path}/env/bin/python"], done.stderr[-3000:]


def test_an_executor_without_the_package_itself(
    spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executors_run(spark, python_without(tmp_path, "hive_bitmap"), monkeypatch)
    problem = r"ImportError: an executor on \S+ has no hive_bitmap: install it for its Python, \S+, on every machine"
    with pytest.raises(BuildFailed, match=problem):
        hive_bitmap.build(spark, "t", ["k"])


def test_rows_from_an_executor_that_lacks_a_package(
    spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks read the rows only where they were asked to; by default, the planner leaves a table that small to Spark."""
    executors_run(spark, python_without(tmp_path, "duckdb"), monkeypatch)
    with monkeypatch.context() as while_building:
        while_building.setattr(spark.sparkContext, "pythonExec", sys.executable)
        hive_bitmap.build(spark, "t", ["k"])
    problem = r"an executor on \S+: hive_bitmap needs duckdb>=1.2, but duckdb is not installed"
    with under(spark, {"hive_bitmap.driver_read_bytes": "0"}), pytest.raises(PySparkException, match=problem):
        hive_bitmap.scan(spark, "t", "k = 3", strategy="rows").collect()
    assert hive_bitmap.scan(spark, "t", "k = 3").collect() == spark.table("t").where("k = 3").collect()


def test_executors_need_no_pandas(
    spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executors_run(spark, python_without(tmp_path, "pandas", "rich", "click"), monkeypatch)
    [report] = hive_bitmap.build(spark, "t", ["k"])
    assert report.base_rows == 1000
    with under(spark, {"hive_bitmap.driver_read_bytes": "0"}):
        found = hive_bitmap.scan(spark, "t", "k = 3", strategy="rows").collect()
    assert found == spark.table("t").where("k = 3").collect()
