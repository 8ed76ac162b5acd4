-- How to use index tables in the SQL of Hive 2.3 and Hive 4. The base table is
--   CREATE TABLE flights (carrier string, tailnum string, distance int) PARTITIONED BY (month int)
-- and its indexes were created by
--   hive-bitmap create flights carrier --compression snappy
--   hive-bitmap create flights tailnum --compression snappy --encoding plain
-- (Hive 4 also reads zstd). In this SQL, plain bitmaps are easier to take apart; gap-coded ones are smaller.
-- An index table describes the files as its last build saw them: see docs/guide/recipes.md.

-- Each key, with the number of files that have it.
SELECT carrier, count(DISTINCT `_bucketname`) AS files FROM default__flights_carrier__ GROUP BY carrier;

-- The number of rows of each key, from a plain index: count the hexadecimal digits that have the bit 1, 2, 4 and 8.
SELECT tailnum, sum(
    length(regexp_replace(digits, '[^13579BDF]', '')) + length(regexp_replace(digits, '[^2367ABEF]', ''))
    + length(regexp_replace(digits, '[^4567CDEF]', '')) + length(regexp_replace(digits, '[^89ABCDEF]', ''))) AS found
FROM (SELECT tailnum, hex(`_bitmaps`) AS digits FROM default__flights_tailnum__) plain
GROUP BY tailnum;

-- The bytes of bitmaps that are not zero, with their place in the block's bitmap: from a plain index,
CREATE VIEW flights_tailnum_bytes AS
SELECT tailnum, `_bucketname`, `_offset`, place, CAST(conv(digits, 16, 10) AS int) AS byte
FROM default__flights_tailnum__
LATERAL VIEW posexplode(split(regexp_replace(hex(`_bitmaps`), '(..)', '$1,'), ',')) bytes AS place, digits
WHERE digits <> '00' AND digits <> '';

-- and from a gap-coded one. A piece is a mark (a byte 00 or FF) and the bytes after it; the first piece has no mark.
-- The mark stands for as many bytes as `_gap_lengths` says. space(n) splits into n + 1 parts, which expands a run of
-- 0xFF to the bytes that it stands for.
CREATE VIEW flights_carrier_bytes AS
SELECT carrier, `_bucketname`, `_offset`, behind - size_ + run - 1 + step - back AS place,
  CAST(conv(digits, 16, 10) AS int) AS byte
FROM (
  SELECT carrier, `_bucketname`, `_offset`, piece, run, size_,
    sum(size_) OVER (PARTITION BY carrier, `_bucketname`, `_offset` ORDER BY i) AS behind
  FROM (
    SELECT carrier, `_bucketname`, `_offset`, i, piece, run, run - 1 + CAST(length(piece) / 3 AS int) AS size_
    FROM (
      SELECT carrier, `_bucketname`, `_offset`, i, piece, IF(i = 0, 1, `_gap_lengths`[i - 1]) AS run
      FROM default__flights_carrier__
      LATERAL VIEW posexplode(split(
        regexp_replace(regexp_replace(hex(`_bitmaps`), '(..)', '$1 '), '(00|FF) ', ',$1 '), ',')) pieces AS i, piece
    ) cut
  ) measured
) placed
LATERAL VIEW posexplode(split(piece, ' ')) bytes AS step, digits
LATERAL VIEW posexplode(split(space(IF(step = 0 AND digits = 'FF', run - 1, 0)), ' ')) copies AS back, blank
WHERE digits <> '00' AND digits <> '';

-- The number of rows of each key, from either view: the bits that are set in its bytes.
SELECT carrier, sum(length(translate(conv(CAST(byte AS string), 10, 2), '0', ''))) AS found
FROM flights_carrier_bytes
GROUP BY carrier;

-- Two indexes: the blocks that contain rows with both keys, with the exact number of these rows,
SELECT c.`_bucketname`, c.`_offset`,
  sum(length(translate(conv(CAST(c.byte & t.byte AS string), 10, 2), '0', ''))) AS found
FROM flights_carrier_bytes c JOIN flights_tailnum_bytes t
  ON c.`_bucketname` = t.`_bucketname` AND c.`_offset` = t.`_offset` AND c.place = t.place
WHERE c.carrier = 'UA' AND t.tailnum IN ('N1', 'N2') AND (c.byte & t.byte) <> 0
GROUP BY c.`_bucketname`, c.`_offset`;

-- or, without looking at bits, the blocks that contain both keys, possibly in different rows. That is enough to choose
-- what to read, and all that an index of type COMPACT can tell.
SELECT DISTINCT c.`_bucketname`, c.`_offset`
FROM default__flights_carrier__ c JOIN default__flights_tailnum__ t
  ON c.`_bucketname` = t.`_bucketname` AND c.`_offset` = t.`_offset`
WHERE c.carrier = 'UA' AND t.tailnum IN ('N1', 'N2');

-- The following queries join by file names. They use left joins on purpose: if Hive 2.3 can make an inner join of it,
-- or if the query uses IN, Hive finds nothing and reports no error. For the same reason, no condition after such a join
-- may reject NULL: hence coalesce.

-- From files back to the rows of the base table, including files that the index does not know.
SELECT carrier, tailnum, distance, month
FROM (SELECT *, INPUT__FILE__NAME AS file FROM flights WHERE carrier = 'UA' AND tailnum = 'N1') f
LEFT JOIN (
  SELECT `_bucketname`, max(IF(tailnum = 'N1', 1, 0)) AS has
  FROM default__flights_tailnum__ GROUP BY `_bucketname`) known
  ON f.file = known.`_bucketname`
WHERE coalesce(known.has, 1) = 1;

-- Files that the index does not know.
SELECT f.file
FROM (SELECT DISTINCT INPUT__FILE__NAME AS file FROM flights) f
LEFT JOIN (SELECT DISTINCT `_bucketname` FROM default__flights_tailnum__) known ON f.file = known.`_bucketname`
WHERE known.`_bucketname` IS NULL;

-- From blocks back to the rows of a text table, flights_text, which has the same columns and an index on tailnum. Hive
-- knows where each line begins. (For other formats, BLOCK__OFFSET__INSIDE__FILE does not identify a block.) A block
-- extends from its `_offset` to the next one.
SELECT f.carrier, f.tailnum, f.distance, f.month
FROM (SELECT *, INPUT__FILE__NAME AS file, BLOCK__OFFSET__INSIDE__FILE AS line FROM flights_text WHERE tailnum = 'N1') f
LEFT JOIN (
  SELECT file, first_line, has,
    lead(first_line, 1, 9223372036854775807) OVER (PARTITION BY file ORDER BY first_line) AS next_block
  FROM (
    SELECT `_bucketname` AS file, `_offset` AS first_line, max(IF(tailnum = 'N1', 1, 0)) AS has
    FROM default__flights_text_tailnum__ GROUP BY `_bucketname`, `_offset`) once) known
  ON f.file = known.file
WHERE coalesce(known.has, 1) = 1
  AND f.line >= coalesce(known.first_line, 0) AND f.line < coalesce(known.next_block, 9223372036854775807);
