"""Counts of tables of which rows are deleted come from the index, less what the format's classes say is deleted."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from tests import asking
from tests.lake import test_delta as delta
from tests.lake import test_iceberg as iceberg_tables
from tests.lake.test_iceberg import IN_LAKE, of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.lake, pytest.mark.turn(2)]
VECTORS = {"enableDeletionVectors": "true"}
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
# Counts of several key sets are the index's only if it has all of them: no file is left to Spark then.
COUNTS = (
    "SELECT count(*) FROM t WHERE k = 7",
    "SELECT count(DISTINCT k), count(DISTINCT p) FROM t",
    "SELECT count(DISTINCT k), count(DISTINCT p) FROM t WHERE k BETWEEN 100 AND 2000",
    "SELECT k, count(*) FROM t GROUP BY k",
    "SELECT p, k, count(*) FROM t WHERE k < 300 GROUP BY p, k",
    "SELECT min(k), max(k), count(k) FROM t WHERE k <> 3",
    "SELECT sum(k), avg(k), count(*) FROM t WHERE p = 'p1' AND k IS NOT NULL",
    "SELECT count(*) FROM t WHERE k = 7 OR p = 'p0'",
)


def index_both(spark: SparkSession, table: str = "t") -> None:
    with asking.indexed(spark):
        spark.sql(f"CREATE INDEX ip ON TABLE {table} (p) AS 'BITMAP'")


def require_from_index(
    spark: SparkSession, table: str = "t", version: str = "", counts: Sequence[str] = COUNTS
) -> None:
    """Require that counts are plain Spark's, and that the index alone gives them."""
    for query in counts:
        query = of(query, f"{table}{version}")
        asking.require_alike(spark, query, "index only")
        assert asking.used(spark, query, "index only") == [("t", "answered")], query
    for query in ("SELECT count(*) FROM t", "SELECT min(k), max(k) FROM t"):  # which the formats may answer themselves
        asking.require_alike(spark, of(query, f"{table}{version}"), "index only")


def test_counts_subtract_deletion_vectors_of_delta(spark: SparkSession, database: str) -> None:
    """One delete after another, whole blocks and a whole file, and versions of before."""
    delta.make(spark, files=3, **VECTORS)
    index_both(spark)
    assert (hive_bitmap.plan(spark, "t", "k = 777").blocks_total or 0) > 6
    for where in ("id = 0 OR id > 29998", "id BETWEEN 5000 AND 9999", "k IN (0, 1, 2999)"):
        spark.sql(f"DELETE FROM t WHERE {where}")
        require_from_index(spark, counts=COUNTS[:2])
    spark.sql("DELETE FROM t WHERE id % 100 = 7")
    require_from_index(spark)
    spark.sql("DELETE FROM t WHERE id < 5000")
    with asking.under(spark, {"spark.databricks.delta.deletionVectors.useMetadataRowIndex": "false"}):
        require_from_index(spark, counts=COUNTS[:2])
    require_from_index(spark, version=" VERSION AS OF 5", counts=COUNTS[:3])
    spark.sql("UPDATE t SET k = 7 WHERE id = 20001")
    with asking.indexed(spark):
        hive_bitmap.rebuild(spark, "t")
    require_from_index(spark, counts=COUNTS[1:3])


def test_which_rows_of_delta_are_deleted_is_read_once(spark: SparkSession, database: str) -> None:
    """Vectors are read when a count needs them, and not again while they are the same."""
    delta.make(spark, files=2, **VECTORS)
    index_both(spark)
    spark.sql("DELETE FROM t WHERE id % 100 = 7 AND id < 10000")
    (vectors,) = _location(spark).glob("*.bin")
    count = "SELECT k, count(*) FROM t GROUP BY k"
    wanted = asking.require_alike(spark, count, "index only")
    hidden = vectors.rename(vectors.with_suffix(".hidden"))
    assert not asking.difference(asking.by_index(spark, count, "index only"), wanted)
    hidden.rename(vectors)
    spark.sql("DELETE FROM t WHERE id % 100 = 8 AND id < 10000")
    asking.require_alike(spark, count, "index only")


def _location(spark: SparkSession) -> Path:
    (location,) = spark.sql("DESCRIBE DETAIL t").select("location").first()  # type: ignore[misc]
    return Path(location.removeprefix("file:"))


def _change_last_vector(spark: SparkSession, change: Callable[[Path, dict[str, Any]], Mapping[str, Any]]) -> None:
    """Write the last commit again with other descriptors of the deletion vectors in it, given their file."""
    folder = _location(spark)
    (vectors,) = folder.glob("*.bin")
    log = max((folder / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "add" in action and action["add"].get("deletionVector"):
            action["add"]["deletionVector"] = change(vectors, action["add"]["deletionVector"])
    log.write_text("\n".join(map(json.dumps, actions)) + "\n")
    for outdated in (log.with_name(f".{log.name}.crc"), log.with_suffix(".crc")):
        outdated.unlink(missing_ok=True)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]


def _inline(vectors: Path, descriptor: dict[str, Any]) -> Mapping[str, Any]:
    """The same deletion vector in the log itself. Its file has the length, the bytes and their checksum."""
    size, begin = descriptor["sizeInBytes"], descriptor["offset"] + 4
    data = vectors.read_bytes()[begin : begin + size]
    words = [int.from_bytes(data[at : at + 4].ljust(4, b"\0"), "big") for at in range(0, size, 4)]
    text = "".join(Z85[word // 85**place % 85] for word in words for place in range(4, -1, -1))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": size, "cardinality": descriptor["cardinality"]}


def test_counts_subtract_deletion_vectors_in_the_log(spark: SparkSession, database: str) -> None:
    delta.make(spark, files=1, **VECTORS)
    index_both(spark)
    spark.sql("DELETE FROM t WHERE id BETWEEN 100 AND 899")
    _change_last_vector(spark, _inline)
    require_from_index(spark, counts=COUNTS[:2])


def test_a_broken_deletion_vector_is_sparks_error(spark: SparkSession, database: str) -> None:
    """Where the vector is needed, Spark fails as without an index; counts of other files do not need it."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    delta.make(spark, files=2, **VECTORS)
    spark.sql("DELETE FROM t WHERE id % 100 = 7 AND id < 10000")
    (vectors,) = _location(spark).glob("*.bin")
    content = bytearray(vectors.read_bytes())
    content[-6] ^= 1
    vectors.write_bytes(content)
    vectors.with_name(f".{vectors.name}.crc").unlink(missing_ok=True)
    query = "SELECT k, count(*) FROM t WHERE k < 9 GROUP BY k"
    with pytest.raises(Py4JJavaError) as wanted:
        asking.by_spark(spark, query)
    assert "Checksum" in str(wanted.value)
    with pytest.raises(Py4JJavaError) as found:
        asking.by_index(spark, query, "index only")
    assert "Checksum" in str(found.value) and "hive_bitmap" not in str(found.value).splitlines()[1]
    query = "SELECT count(*) FROM t WHERE k = 1555"  # of the other file
    assert asking.by_index(spark, query, "index only").rows == ["(10,)"]


@IN_LAKE
@pytest.mark.parametrize(("version", "format"), [("2", "parquet"), ("2", "orc"), ("3", "parquet")])
def test_counts_subtract_deletes_of_iceberg(
    iceberg: SparkSession, iceberg_table: str, version: str, format: str
) -> None:
    iceberg_tables.make(iceberg, iceberg_table, files=3, format__version=version, write_format_default=format)
    index_both(iceberg, iceberg_table)
    for where in ("id = 0 OR id > 29998", "id BETWEEN 5000 AND 9998", "id % 100 = 7"):
        iceberg.sql(f"DELETE FROM {iceberg_table} WHERE {where}")
        require_from_index(iceberg, iceberg_table, counts=COUNTS[:2])
    require_from_index(iceberg, iceberg_table)
    snapshots = iceberg.sql(f"SELECT snapshot_id FROM {iceberg_table}.snapshots ORDER BY committed_at").collect()
    require_from_index(iceberg, iceberg_table, f" VERSION AS OF {snapshots[-2][0]}", COUNTS[:2])


@IN_LAKE
def test_counts_subtract_delete_files_of_many_data_files(iceberg: SparkSession, iceberg_table: str) -> None:
    """A file of position deletes may be of all data files of a partition; deletion vectors take over from it."""
    iceberg_tables.make(
        iceberg, iceberg_table, files=3, by="p", format__version="2", write_delete_granularity="partition"
    )
    with asking.indexed(iceberg):
        iceberg.sql(f"CREATE INDEX ii ON TABLE {iceberg_table} (id) AS 'BITMAP'")
    counts = ("SELECT count(DISTINCT k), count(DISTINCT id) FROM t WHERE k < 600", COUNTS[0])
    for statement in (
        "DELETE FROM t WHERE id % 100 = 7",
        "DELETE FROM t WHERE id % 100 = 8",
        "ALTER TABLE t SET TBLPROPERTIES ('format-version'='3')",
        "DELETE FROM t WHERE id % 1000 = 17",
    ):
        iceberg.sql(statement.replace(" t ", f" {iceberg_table} "))
        for query in counts:
            query = of(query, iceberg_table)
            asking.require_alike(iceberg, query, "index only")
            assert asking.used(iceberg, query, "index only") == [("t", "answered")], query
