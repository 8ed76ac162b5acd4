"""Spark's own SQL test inputs over indexed tables: every answer is plain Spark's, in every way of asking.

The files are shuffled by the seed and taken in parts: the first one, with two ways of asking each query, or N more with
`--long N`, in every way. All of them: make test T="tests/sparksql --long 43"
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hive_bitmap
from hive_bitmap.core.planning import prices
from tests.servers.jars import Unavailable
from tests.sparksql import inputs
from tests.sparksql.run import WAYS, Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.random, pytest.mark.turn(2)]
log = logging.getLogger(__name__)
FILES, FEW = 8, 4  # in a part, and without --long


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "part" in metafunc.fixturenames:
        metafunc.parametrize("part", range(1 + metafunc.config.getoption("--long")))


@pytest.fixture(scope="module")
def jar() -> Path:
    """The jar that holds the inputs."""
    try:
        return inputs.archive()
    except Unavailable as e:
        pytest.skip(str(e))


def test_answers_are_sparks(
    spark: SparkSession,
    jar: Path,
    tmp_path: Path,
    part: int,
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
    tell_of_campaign: Callable[[str], None],
) -> None:
    for price in ("NATIVE_LOOKUP", "DIRECT_START"):  # no table is too small for a lookup
        monkeypatch.setattr(prices, price, -1.0)
    long, seed = (pytestconfig.getoption(name) for name in ("--long", "--seed"))
    names = inputs.names(jar)
    random.Random(seed).shuffle(names)
    hive_bitmap.enable(spark)
    run = Run(spark, jar, tmp_path, seed, len(WAYS) if long else 2)
    for name in names[part * FILES : (part + 1) * FILES] if long else names[:FEW]:
        run.file(inputs.read(jar, name))
        log.warning("%s: %d wrong", name, len(run.wrong))
    tell_of_campaign(f"Spark's SQL inputs, seed {seed}, part {part}: {dict(sorted(run.done.items()))}")
    assert not run.wrong, "\n\n".join([f"{len(run.wrong)} wrong, seed {seed}, part {part}", *run.wrong])
    assert part * FILES >= len(names) or run.done["queries compared"], run.done
