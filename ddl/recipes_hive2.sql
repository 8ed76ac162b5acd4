-- How to use EWAH index tables in the SQL of Hive 2.3, which has functions for them. The functions need
-- JavaEWAH-0.3.2.jar in Hive's lib (com.googlecode.javaewah:JavaEWAH:0.3.2; 0.3.3 and later read other words).
-- The base table is
--   CREATE TABLE flights (carrier string, tailnum string, distance int) PARTITIONED BY (month int)
-- and its indexes were created by `hive-bitmap create flights carrier tailnum --encoding ewah --compression snappy`.
-- An index table describes the files as its last build saw them: see docs/guide/recipes.md.

-- The blocks that contain rows with both keys. If a column has several keys (OR), each key is tested separately.
SELECT DISTINCT c.`_bucketname`, c.`_offset`
FROM default__flights_carrier__ c JOIN default__flights_tailnum__ t
  ON c.`_bucketname` = t.`_bucketname` AND c.`_offset` = t.`_offset`
WHERE c.carrier = 'UA' AND t.tailnum IN ('N1', 'N2')
  AND NOT EWAH_BITMAP_EMPTY(EWAH_BITMAP_AND(c.`_bitmaps`, t.`_bitmaps`));

-- The rows that have one key or the other, in two columns. Blocks that contain only one of the keys count too.
SELECT coalesce(c.`_bucketname`, t.`_bucketname`) AS `_bucketname`, coalesce(c.`_offset`, t.`_offset`) AS `_offset`,
  CASE
    WHEN c.`_bitmaps` IS NULL THEN t.`_bitmaps`
    WHEN t.`_bitmaps` IS NULL THEN c.`_bitmaps`
    ELSE EWAH_BITMAP_OR(c.`_bitmaps`, t.`_bitmaps`)
  END AS `_bitmaps`
FROM (SELECT * FROM default__flights_carrier__ WHERE carrier = 'UA') c
FULL OUTER JOIN (SELECT * FROM default__flights_tailnum__ WHERE tailnum = 'N1') t
  ON c.`_bucketname` = t.`_bucketname` AND c.`_offset` = t.`_offset`;
