"""A session without Spark, for tests of what functions decide from tables, files and indexes; a plugin of pytest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.metastore.memory import MemoryMetastore


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[MemoryMetastore]:
    """A metastore in memory, with the database `db`."""
    from tests.spark.metastore.memory import metastore_in_memory  # which the package as it once was does not have

    with metastore_in_memory(tmp_path / "warehouse") as made:
        made.create_database("db")
        yield made


@pytest.fixture
def memory(in_memory: MemoryMetastore) -> SparkSession:
    """A session of the metastore in memory, whose current database is `db`; tasks run in this process."""
    return in_memory.session()
