"""The quickstarts of the guide run as they stand, with the jars of this lane in place of a download."""

from __future__ import annotations

import re
from pathlib import Path

import pyspark
import pytest

from tests.programs import HOME, run_program
from tests.servers import jars

pytestmark = pytest.mark.lake
PAGE = (HOME / "docs/guide/lake.md").read_text()
PACKAGES = re.compile(r'\.config\("spark\.jars\.packages", "([^"]*)"\)')
RELEASE = ".".join(pyspark.__version__.split(".")[:2])


def program(kind: str) -> str:
    """Return the program below the heading of a quickstart."""
    return PAGE.partition(f"## {kind} in twenty lines\n")[2].partition("```python\n")[2].partition("```")[0]


@pytest.mark.parametrize("kind", ["Delta", "Iceberg"])
def test_a_quickstart_is_of_twenty_lines_and_names_the_tested_version(kind: str) -> None:
    text = program(kind)
    assert 15 < len(text.splitlines()) <= 22
    [coordinate] = PACKAGES.findall(text)
    assert coordinate in jars.listed("lake")


@pytest.mark.skipif(RELEASE != "4.1", reason="the quickstarts name the jars for PySpark 4.1")
@pytest.mark.parametrize("kind", ["Delta", "Iceberg"])
def test_a_quickstart_runs(kind: str, tmp_path: Path) -> None:
    folder = jars.resolve("lake", jars.listed("lake"))
    local = ",".join(str(path) for path in sorted(folder.glob("*.jar")) if path.name.startswith(kind.lower()))
    text = PACKAGES.sub(f'.master("local[2]").config("spark.jars", "{local}")', program(kind))
    done = run_program(text.replace("file:/tmp/", f"file:{tmp_path}/"), folder=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "no Hive metastore" not in done.stderr
    assert re.search(r"^\|by_customer\|\s+\d\|\s*\d+\|", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^\|\s*4010\|$", done.stdout, re.MULTILINE), done.stdout
    assert "the index alone answers" in done.stdout
