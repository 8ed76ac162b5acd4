"""Test that the jar in the package is up to date with its sources, and Python with the jar."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

from hive_bitmap.spark.jvm_bridge import EXTENSION, JAR, PROTOCOL
from tests.servers import jars

CHECKOUT = Path(__file__).parents[1]


def test_the_jar_is_what_its_sources_give() -> None:
    if not pyspark.__version__.startswith("4.3."):
        pytest.skip("the jar is compiled against Spark 4.3")
    try:
        jars.resolve("ecj", ["org.eclipse.jdt:ecj:3.40.0"])
    except jars.Unavailable as e:
        pytest.skip(str(e))
    command = [sys.executable, str(CHECKOUT / "scripts" / "jar.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"make jar, and commit it: {done.stdout}{done.stderr[-2000:]}"


def test_java_and_python_have_one_protocol() -> None:
    source = (Path(__file__).parents[1] / "jvm/hive_bitmap/catalyst/python/PythonRequest.java").read_text()
    assert re.findall(r"int PROTOCOL = (\d+);", source) == [str(PROTOCOL)]


def test_the_extension_is_in_it() -> None:
    with zipfile.ZipFile(JAR) as jar:
        assert f"{EXTENSION.replace('.', '/')}.class" in jar.namelist()
