"""Random tables under random accidents on real stores, as `tests/integration/test_random_tables` has them on a disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hive_bitmap.spark.metastore import session_settings
from hive_bitmap.spark.preparing import index_lookup
from tests.integration.test_random_tables import PUSHDOWN, check_seed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.stores, pytest.mark.turn(4)]
USUAL = 2  # random tables on each store; more of them with --long


@pytest.fixture
def calm(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark without its pushdown, which loses NaN and -0.0 of files that pyarrow wrote."""
    for name in PUSHDOWN:
        spark.conf.set(name, "false")
    session_settings.use_stores(spark)
    yield spark
    for name in PUSHDOWN:
        spark.conf.unset(name)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    long, first = (metafunc.config.getoption(name) for name in ("--long", "--seed"))
    metafunc.parametrize("seed", range(first, first + USUAL + long))


def test_answers_are_sparks_whatever_happened(
    calm: SparkSession, home: str, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 3 == 1:  # every third index is one that is too large for the driver
        monkeypatch.setattr(index_lookup, "DRIVER_INDEX_BYTES", -1)
    check_seed(calm, calm.catalog.currentDatabase(), tmp_path, seed, home)
