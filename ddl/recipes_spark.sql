-- How to use index tables in Spark SQL, with the functions of functions.sql in the current database. The base table is
--   CREATE TABLE flights (carrier string, tailnum string, distance int) PARTITIONED BY (month int)
-- and its indexes were created by `hive-bitmap create flights carrier tailnum`.
-- An index table describes the files as its last build saw them: see docs/guide/recipes.md.

-- Each key, with the number of files and rows that have it.
SELECT carrier, count(DISTINCT `_bucketname`) AS files, sum(gap_count(`_bitmaps`, `_gap_lengths`)) AS found
FROM default__flights_carrier__
GROUP BY carrier;

-- Two indexes: the blocks that contain rows with both keys, and the number of these rows. A row has only one key of a
-- column, so the counts of several keys add up.
SELECT `_bucketname`, `_offset`, sum(found) AS found
FROM (
  SELECT `_bucketname`, `_offset`, bitmap_count(plain_and(
      plain_from_gap(c.`_bitmaps`, c.`_gap_lengths`), plain_from_gap(t.`_bitmaps`, t.`_gap_lengths`))) AS found
  FROM default__flights_carrier__ c JOIN default__flights_tailnum__ t USING (`_bucketname`, `_offset`)
  WHERE c.carrier = 'UA' AND t.tailnum IN ('N1', 'N2'))
WHERE found > 0
GROUP BY `_bucketname`, `_offset`;

-- The rows of a block that have the first key and not the second, as row numbers from 0.
SELECT `_bucketname`, `_offset`, explode(only_first) AS row
FROM (
  SELECT `_bucketname`, `_offset`, plain_rows(plain_and_not(
      plain_from_gap(c.`_bitmaps`, c.`_gap_lengths`),
      coalesce(plain_from_gap(t.`_bitmaps`, t.`_gap_lengths`), X''))) AS only_first
  FROM (SELECT * FROM default__flights_carrier__ WHERE carrier = 'AA') c
  LEFT JOIN (SELECT * FROM default__flights_tailnum__ WHERE tailnum = 'N1') t USING (`_bucketname`, `_offset`));

-- From files back to the rows of the base table, including files that the index does not know. Spark reads Parquet and
-- ORC itself and percent-encodes their file names, which bucketname() undoes. For other tables, use input_file_name()
-- unchanged. The file names are compared after the scan; hive_bitmap.sql avoids the reading too.
SELECT carrier, tailnum, distance, month
FROM (SELECT *, bucketname(input_file_name()) AS file FROM flights)
WHERE carrier = 'UA' AND tailnum = 'N1' AND (
  file IN (SELECT `_bucketname` FROM default__flights_tailnum__ WHERE tailnum = 'N1')
  OR file NOT IN (SELECT `_bucketname` FROM default__flights_tailnum__));

-- Files that the index does not know.
SELECT DISTINCT bucketname(input_file_name()) AS file FROM flights
EXCEPT SELECT `_bucketname` FROM default__flights_tailnum__;
