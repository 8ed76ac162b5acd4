"""A session without Spark, for tests of what functions decide from tables, files and indexes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.metastore.memory import MemoryMetastore, metastore_in_memory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[MemoryMetastore]:
    """A metastore in memory, with the database `db`."""
    with metastore_in_memory(tmp_path / "warehouse") as made:
        made.create_database("db")
        yield made


@pytest.fixture
def memory(in_memory: MemoryMetastore) -> SparkSession:
    """A session of the metastore in memory, whose current database is `db`; tasks run in this process."""
    return in_memory.session()
