-- Index tables as DDL, one of each kind, as `hive-bitmap create` registers them: for those who manage tables by
-- scripts. They are plain EXTERNAL tables for Hive 2.3, Hive 4 and Spark. Their base table is
--   CREATE TABLE flights (carrier string, tailnum string, distance int) PARTITIONED BY (month int)
-- An index table is in the database of its base table and is called <db>__<table>_<index>__. Its columns are the
-- indexed columns with the base table's names and types, then the place of the rows, the bitmaps, and the partition
-- columns of the base table; its partitions are the segments of the index. docs/format.md
-- specifies the bytes. The properties hive_bitmap.* make a table an index of this package; without them it is only a
-- table.
-- ${indexes} is the folder of the tables: SET indexes=/warehouse/indexes; in Spark, --hivevar indexes=.. in Hive.

-- plain: one bit per row of the block
CREATE EXTERNAL TABLE default__flights_carrier_plain__ (
  carrier string, `_bucketname` string, `_offset` bigint, `_bitmaps` binary, month int
) PARTITIONED BY (hive_bitmap_segment int) STORED AS PARQUET
LOCATION '${indexes}/default__flights_carrier_plain__';

-- gap (the default): each run of 0x00 or 0xFF bytes is stored as one byte, and its length in a second column
CREATE EXTERNAL TABLE default__flights_carrier_gap__ (
  carrier string, `_bucketname` string, `_offset` bigint, `_bitmaps` binary, `_gap_lengths` array<int>, month int
) PARTITIONED BY (hive_bitmap_segment int) STORED AS PARQUET
LOCATION '${indexes}/default__flights_carrier_gap__';

-- ewah: the words that Hive 0.8 to 2.3 stores, for its EWAH_BITMAP_* functions
CREATE EXTERNAL TABLE default__flights_carrier_ewah__ (
  carrier string, `_bucketname` string, `_offset` bigint, `_bitmaps` array<bigint>, month int
) PARTITIONED BY (hive_bitmap_segment int) STORED AS PARQUET
LOCATION '${indexes}/default__flights_carrier_ewah__';

-- roaring: the portable serialisation of Roaring bitmaps
CREATE EXTERNAL TABLE default__flights_carrier_roaring__ (
  carrier string, `_bucketname` string, `_offset` bigint, `_bitmaps` binary, month int
) PARTITIONED BY (hive_bitmap_segment int) STORED AS PARQUET
LOCATION '${indexes}/default__flights_carrier_roaring__';

-- COMPACT: no bits, only the blocks that hold the key
CREATE EXTERNAL TABLE default__flights_carrier_compact__ (
  carrier string, `_bucketname` string, `_offsets` array<bigint>, month int
) PARTITIONED BY (hive_bitmap_segment int) STORED AS PARQUET
LOCATION '${indexes}/default__flights_carrier_compact__';
