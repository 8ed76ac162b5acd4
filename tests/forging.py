"""Index tables as somebody can forge them who may create tables in a database."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from hive_bitmap.core.index import generation, generation_names, manifest, shard
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.indexing.shard_compaction import shard_rows
from hive_bitmap.spark.building import publish
from hive_bitmap.spark.metastore import alter_table
from hive_bitmap.spark.registry import catalog
from hive_bitmap.spark.registry.catalog import Index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def give(spark: SparkSession, name: str, owner: str) -> None:
    """Give a table to another owner, as his own CREATE TABLE would."""
    if not hasattr(spark, "_jsparkSession"):  # of a metastore in memory
        spark.metastore.give(spark.catalog.currentDatabase(), name, owner=owner)
        catalog.clear_caches()
        return
    tables: Any = spark._jsparkSession.sharedState().externalCatalog()
    table = tables.getTable(spark.catalog.currentDatabase(), name)
    field = table.getClass().getDeclaredField("owner")
    field.setAccessible(True)
    field.set(table, owner)
    tables.alterTable(table)
    assert tables.getTable(spark.catalog.currentDatabase(), name).owner() == owner
    catalog.clear_caches()


def forge(spark: SparkSession, table: str, location: str, **changes: Any) -> None:
    """Make the table of an index that says what the only index of a table says, but for these `changes`."""
    _, [legitimate] = catalog.table_and_indexes(spark, table)
    made = publish.index_table(replace(legitimate.definition, **changes))
    alter_table.create(spark, replace(made, location=location))
    catalog.clear_caches()


def forge_without_three(spark: SparkSession, root: str, name: str, index_table: str, owner: str) -> Index:
    """Make an index of the table v, which has one of its column k, in which no row has the key 3; give it away."""
    base, [legitimate] = catalog.table_and_indexes(spark, "v")
    [published] = catalog.segments(spark, legitimate)
    false = replace(legitimate.definition, name=name, index_table=index_table, root=root)
    folder = f"{root}/{generation_names.new_name()}"
    generation.start(folder, None, false)
    _write_without_three(legitimate.definition, published, folder)
    made = publish.index_table(false)
    alter_table.create(spark, made)
    alter_table.change(spark, made, added={("0",): folder})
    give(spark, index_table, owner)
    return Index(definition=false, table=base)


def _write_without_three(definition: Definition, published: str, folder: str) -> None:
    stored = manifest.read(published)
    [(name, size)] = stored.sizes.items()
    rows = shard_rows(definition, stored.shard_path(name), size)
    keys = pc.if_else(pc.equal(rows["k"], 3), pa.scalar(99, pa.int32()), rows["k"])
    rows = rows.set_column(0, rows.schema.field(0), keys).sort_by("k")
    written = shard.write(f"{folder}/{name}", rows, definition)
    shards = pa.Table.from_pylist(
        [{"shard": name, "size": written.size, "rows": rows.num_rows, "cardinality_size": written.cardinality_size}],
        manifest.SHARDS,
    )
    manifest.write(folder, [stored.files], shards, written.sums)
