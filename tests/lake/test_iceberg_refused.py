"""What cannot be had of an Iceberg table is refused with a sentence and left to Spark; odd tables are read right."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hive_bitmap
from hive_bitmap.errors import NotFound, Unsupported
from tests import asking
from tests.lake.test_iceberg import CATALOGS, IN_LAKE, append, create, make, of, status

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.lake


@CATALOGS
def test_indexes_that_cannot_be(iceberg: SparkSession, iceberg_table: str) -> None:
    spark, t = iceberg, iceberg_table
    create(spark, t, "id BIGINT, k INT, p STRING, a STRUCT<b: INT>", by="p, truncate(3, k)")
    create(spark, f"{t}2", "k INT", write_format_default="avro")
    refused = {
        "partitions iceberg table": lambda: hive_bitmap.build(spark, t, ["p"]),
        "WHERE is not supported": lambda: hive_bitmap.build(spark, t, ["id"], where="p = 'p1'"),
        "IN TABLE is not supported": lambda: hive_bitmap.build(spark, t, ["id"], index_table="x"),
        "is struct": lambda: hive_bitmap.build(spark, t, ["a"]),
        "is written as avro": lambda: hive_bitmap.build(spark, f"{t}2", ["k"]),
        "readers of result files do not support": lambda: hive_bitmap.write_offsets(spark, t, "k = 7", "/tmp/x"),
    }
    for why, act in refused.items():
        with pytest.raises(Unsupported, match=why):
            act()
    spark.sql(f"ALTER TABLE {t} DROP COLUMN id")
    for column in ("a.b", "id"):  # a leaf of a struct, and a column that is gone
        with pytest.raises(NotFound, match="column"):
            hive_bitmap.build(spark, t, [column])


@IN_LAKE
def test_tables_of_other_catalogs(iceberg: SparkSession, iceberg_table: str) -> None:
    """Their indexes lie in the database of that name, beside those of a table of the same name there."""
    spark, t = iceberg, iceberg_table
    own = t.replace("lake.", "spark_catalog.")
    make(spark, t, files=1)
    create(spark, own)
    append(spark, own)
    hive_bitmap.build(spark, own, ["k"], name="own")
    assert [one.definition.name for one in hive_bitmap.show(spark, t)] == ["ik"]
    assert [one.definition.name for one in hive_bitmap.show(spark, own)] == ["own"]
    with pytest.raises(hive_bitmap.errors.AlreadyExists, match=f"it is index own on {own.partition('.')[2]}"):
        hive_bitmap.build(spark, t, ["id"], name="own")
    spark.sql("CREATE DATABASE IF NOT EXISTS lake.nowhere")
    create(spark, "lake.nowhere.t")
    with pytest.raises(NotFound, match="database nowhere of spark_catalog, which does not exist"):
        hive_bitmap.build(spark, "lake.nowhere.t", ["k"])
    with pytest.raises(NotFound, match="no table 'u'"):
        hive_bitmap.build(spark, "lake.nowhere.u", ["k"])
    create(spark, "lake.nowhere.UPPER")
    with pytest.raises(Unsupported, match="characters other than"):
        hive_bitmap.build(spark, "lake.nowhere.UPPER", ["k"])
    query = of("SELECT count(*) FROM t WHERE k = 7", "lake.nowhere.UPPER")
    asking.require_alike(spark, query, "index only")
    spark.sql(f"USE {t.rpartition('.')[0]}")
    try:
        with asking.indexed(spark):
            assert [row.idx_name for row in spark.sql("SHOW INDEX ON t").collect()] == ["ik"]
            assert spark.sql("SELECT count(*) FROM t WHERE k = 7").collect()[0][0] > 0
            spark.sql("ALTER INDEX ik ON t REBUILD")
            spark.sql("DROP TABLE t")
        spark.sql(f"CREATE TABLE {t} USING iceberg AS SELECT 1 AS k")
        hive_bitmap.build(spark, t, ["k"], name="ik")
        spark.sql(f"DROP TABLE {t}")
        assert "is gone: drop the index" in hive_bitmap.show(spark, t)[0].problem
        assert hive_bitmap.drop(spark, t, "ik")
        assert hive_bitmap.show(spark, own)[0].definition.name == "own"
    finally:
        spark.catalog.setCurrentCatalog("spark_catalog")
        spark.catalog.setCurrentDatabase(t.split(".")[1])
    names = [name for _, name, _ in spark.sql(f"SHOW TABLES IN {own.rpartition('.')[0]}").collect()]
    assert not any(name.endswith("_ik__") for name in names)


@IN_LAKE
def test_what_is_left_to_spark(iceberg: SparkSession, iceberg_table: str) -> None:
    spark, t = iceberg, iceberg_table
    make(spark, t, files=2)
    left = (
        "SELECT id FROM t WHERE k = 7 AND input_file_name() <> ''",
        "SELECT id, _pos FROM t WHERE k = 7",
        "SELECT count(*), max(k) FROM t",
        f"SELECT count(*) FROM {t}.files WHERE file_size_in_bytes > 7",
    )
    for query in left:
        asking.require_alike(spark, of(query, t), "blocks")
        assert not asking.used(spark, of(query, t), "blocks"), query
    asking.require_alike(spark, of("SELECT * FROM t WHERE k = 7", t), "rows")
    (first, second) = [
        id for (id,) in spark.sql(f"SELECT snapshot_id FROM {t}.snapshots ORDER BY committed_at").collect()
    ]

    def added(session: SparkSession) -> Any:
        changes = session.read.format("iceberg").option("start-snapshot-id", first).option("end-snapshot-id", second)
        return changes.load(t).where("k = 7").select("id")

    asking.require_alike(spark, added, "blocks")
    assert not asking.used(spark, added, "blocks")
    (path,) = {
        row.location
        for row in spark.sql(f"SELECT regexp_replace(file_path, '/data/.*', '') location FROM {t}.files").collect()
    }
    asking.require_alike(spark, lambda session: session.read.format("iceberg").load(path).where("k = 7"), "blocks")


def test_scans_of_the_same_filters_that_are_narrowed_differently(iceberg: SparkSession, iceberg_table: str) -> None:
    """Spark reads once for two scans that are equal, and Iceberg's are equal if their filters are."""
    spark, t = iceberg, iceberg_table
    make(spark, t, files=2, by="p")
    spark.sql("CREATE TABLE parts USING parquet AS SELECT CONCAT('p', id) AS p, id AS x FROM range(2)")
    spark.sql("CREATE TABLE dims USING parquet AS SELECT CAST(id AS INT) AS k, id % 100 AS x FROM range(1000)")
    joined = "SELECT t.id, t.s FROM t JOIN dims ON t.k = dims.k WHERE dims.x = 7"
    for query in (
        joined,
        f"{joined} UNION ALL SELECT t.id, t.s FROM t JOIN dims ON t.k = dims.k WHERE dims.x = 8",
        f"SELECT count(*) FROM ({joined}) a FULL JOIN (SELECT id, s FROM t) b ON a.id = b.id",
        "SELECT k FROM t WHERE k = 7 INTERSECT SELECT k FROM t",
        "SELECT t.id FROM t JOIN parts ON t.p = parts.p WHERE parts.x = 1 AND t.k IN (7, 777)",
        "SELECT k FROM t EXCEPT SELECT k FROM t WHERE k > 7",
        "SELECT id FROM (SELECT id FROM t WHERE k = 7 AND id > 3) JOIN (SELECT id FROM t WHERE id > 3) USING (id)",
    ):
        for adaptive in ("true", "false"):
            broadcast = {"spark.sql.adaptive.enabled": adaptive, "spark.sql.autoBroadcastJoinThreshold": "-1"}
            with asking.under(spark, broadcast):
                asking.require_alike(spark, of(query, t), "", "blocks", "files")
    assert ("t", "narrowed") in asking.used(spark, of(joined, t), "blocks")


@IN_LAKE
def test_deletes_by_values_are_icebergs(iceberg: SparkSession, iceberg_table: str) -> None:
    """Files that have some are read whole, and counted by Spark; no writer of Spark's makes such deletes."""
    spark, t = iceberg, iceberg_table
    make(spark, t, files=2)
    _delete_by_value(spark, t, 7)
    append(spark, t, first=2)
    hive_bitmap.rebuild(spark, t)
    assert status(spark, t) == (3, 0, 0)
    for query in ("SELECT * FROM t WHERE k IN (7, 8)", "SELECT s FROM t WHERE k = 123456"):
        asking.require_alike(spark, of(query, t), "blocks", "files")
    for query in ("SELECT count(*) FROM t WHERE k = 7", "SELECT k, count(*) FROM t WHERE k < 9 GROUP BY k"):
        asking.require_alike(spark, of(query, t), "index only")
        assert asking.used(spark, of(query, t), "index only") == [("t", "answered")]


def _delete_by_value(spark: SparkSession, table: str, k: int) -> None:
    """Commit a delete of all rows with this k so far."""
    relation: Any = spark.table(table)._jdf.queryExecution().analyzed().collectLeaves().head()
    of_iceberg, jvm = relation.table().table(), spark._jvm
    id = of_iceberg.schema().findField("k").fieldId()
    path = Path(urlsplit(str(of_iceberg.location())).path) / "data" / "deletes.parquet"
    field = pa.field("k", pa.int32(), metadata={"PARQUET:field_id": str(id)})
    pq.write_table(pa.table({"k": pa.array([k], pa.int32())}, schema=pa.schema([field])), path)
    ids = spark.sparkContext._gateway.new_array(jvm.int, 1)  # type: ignore[union-attr]
    ids[0] = id
    builder = jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(of_iceberg.spec())  # type: ignore[union-attr]
    built = (
        builder.ofEqualityDeletes(ids).withPath(str(path)).withFileSizeInBytes(path.stat().st_size).withRecordCount(1)
    )
    of_iceberg.newRowDelta().addDeletes(built.build()).commit()
    spark.sql(f"REFRESH TABLE {table}")


@IN_LAKE
def test_files_that_are_not_as_the_table_is(iceberg: SparkSession, iceberg_table: str) -> None:
    """Files of another format, and files without ids, stay unindexed with the reason, and are read whole."""
    spark, t = iceberg, iceberg_table
    make(spark, t, files=1)
    spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ('write.format.default' = 'orc')")
    append(spark, t, first=1)
    spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ('write.format.default' = 'parquet')")
    source = f"spark_catalog.{t.split('.')[1]}.imported"
    spark.sql(f"CREATE TABLE {source} USING parquet AS SELECT * FROM {t} WHERE id < 100")
    spark.sql(f"CALL lake.system.add_files(table => '{t.partition('.')[2]}', source_table => '{source}')")
    (report,) = hive_bitmap.rebuild(spark, t)
    reasons = sorted(reason for _, reason in report.unindexed)
    assert len(reasons) == 2 and any("have none" in reason for reason in reasons)
    for query in ("SELECT * FROM t WHERE k = 7", "SELECT s FROM t WHERE k = 123456"):
        asking.require_alike(spark, of(query, t), "blocks", "files")
        assert asking.used(spark, of(query, t), "files") == [("t", "narrowed")]
    asking.require_alike(spark, of("SELECT k, count(*) FROM t WHERE k < 9 GROUP BY k", t), "index only")
