-- Functions over the bitmaps of index tables, for SQL users of Spark 4. They are persistent, as tables are.
-- Create them by
--   spark-sql --database tools -f ddl/functions.sql   (in the database `tools`)
--   hive-bitmap sql -f ddl/functions.sql              (in the current database, `default`)
-- docs/format.md specifies the bytes. To combine bitmaps, convert them to plain ones. Only bitmaps of one block have
-- rows in common: join on `_bucketname` and `_offset`. A shorter bitmap counts as padded with zeros. Spark's own
-- bitmap_count(_bitmaps) counts the rows of a plain bitmap. NULL gives NULL; an inconsistent bitmap is an error.
-- Spark accepts SQL functions in SELECT and WHERE. To sort by one, to explode one, or to use one in the ON of a join,
-- give it a name in a subquery.
-- Each body is a query, because Spark accepts no functions inside functions that are mere expressions with lambdas. The
-- parameters go into an array once, because Spark otherwise evaluates an argument wherever it is named.

-- Gap: repeat each byte 0x00 or 0xFF as often as its run is long. Text in ISO-8859-1 has one character per byte.
CREATE OR REPLACE FUNCTION plain_from_gap(bitmaps BINARY, gap_lengths ARRAY<INT>)
RETURNS BINARY
COMMENT 'plain_from_gap(_bitmaps, _gap_lengths): the plain bitmap of a gap-coded one'
RETURN SELECT transform(array(decode(bitmaps, 'ISO-8859-1')), text -> encode(
    regexp_extract(text, r'^[^\x00\xFF]*', 0) || array_join(zip_with(
      regexp_extract_all(text, r'[\x00\xFF][^\x00\xFF]*', 0),
      gap_lengths,
      (run, length) -> CASE
        WHEN run IS NOT NULL AND length >= 1 THEN repeat(left(run, 1), length - 1) || run
        ELSE raise_error('no gap-coded bitmap: each byte 0x00 or 0xFF takes one length, of 1 or more')
      END), ''),
    'ISO-8859-1'))[0]
  FROM (SELECT 1);

CREATE OR REPLACE FUNCTION gap_count(bitmaps BINARY, gap_lengths ARRAY<INT>)
RETURNS BIGINT
COMMENT 'gap_count(_bitmaps, _gap_lengths): how many rows a gap-coded bitmap has'
RETURN SELECT transform(array(bitmaps), bytes -> bitmap_count(bytes) + 8 * aggregate(
    zip_with(
      regexp_extract_all(decode(bytes, 'ISO-8859-1'), r'[\x00\xFF]', 0),
      gap_lengths,
      (run, length) -> CASE
        WHEN run IS NOT NULL AND length >= 1 THEN IF(run = '\u00FF', length - 1, 0)
        ELSE raise_error('no gap-coded bitmap: each byte 0x00 or 0xFF takes one length, of 1 or more')
      END),
    0L,
    (total, more) -> total + more))[0]
  FROM (SELECT 1);

-- EWAH: a marker says how many words lie between it and the next marker. The digits of a word are big-endian, its bytes
-- little-endian. So the order of the words and of all digits is reversed, and the two digits of each byte once more.
CREATE OR REPLACE FUNCTION ewah_count(bitmaps ARRAY<BIGINT>)
RETURNS BIGINT
COMMENT 'ewah_count(_bitmaps): how many rows an EWAH bitmap has'
RETURN SELECT transform(array(bitmaps), stored -> CASE
    WHEN size(stored) < 5 OR stored[1] <> size(stored) - 4
    THEN raise_error('no EWAH bitmap: its words are more or less than it says')
    WHEN stored IS NOT NULL THEN aggregate(
      slice(stored, 4, size(stored) - 4),
      named_struct('literals', 0L, 'total', 0L),
      (state, word) -> IF(state.literals > 0,
        named_struct('literals', state.literals - 1, 'total', state.total + bit_count(word)),
        named_struct(
          'literals', shiftrightunsigned(word, 33),
          'total', state.total + 64 * (word & 1) * (shiftrightunsigned(word, 1) & 4294967295L))),
      state -> IF(state.literals = 0, state.total,
        raise_error('no EWAH bitmap: its words are more or less than it says')))
  END)[0]
  FROM (SELECT 1);

CREATE OR REPLACE FUNCTION plain_from_ewah(bitmaps ARRAY<BIGINT>)
RETURNS BINARY
COMMENT 'plain_from_ewah(_bitmaps): the plain bitmap of an EWAH one, without the zero bytes at its end'
RETURN SELECT transform(array(bitmaps), stored -> CASE
    WHEN size(stored) < 5 OR stored[1] <> size(stored) - 4
    THEN raise_error('no EWAH bitmap: its words are more or less than it says')
    WHEN stored IS NOT NULL THEN unhex(left(
      regexp_replace(reverse(array_join(reverse(aggregate(
        sequence(4, size(stored) - 1),
        named_struct('next', 4L, 'markers', CAST(array() AS ARRAY<INT>)),
        (state, at) -> IF(at < state.next, state, named_struct(
          'next', at + 1 + shiftrightunsigned(stored[at - 1], 33), 'markers', state.markers || array(at))),
        state -> IF(state.next = size(stored), flatten(transform(
            state.markers,
            at -> array_repeat(
                IF(stored[at - 1] & 1 = 1, 'FFFFFFFFFFFFFFFF', '0000000000000000'),
                CAST(shiftrightunsigned(stored[at - 1], 1) & 4294967295L AS INT))
              || transform(
                slice(stored, at + 1, CAST(shiftrightunsigned(stored[at - 1], 33) AS INT)),
                word -> lpad(hex(word), 16, '0')))),
          raise_error('no EWAH bitmap: its words are more or less than it says'))
      )), '')), '(.)(.)', '$2$1'),
      2 * CAST((stored[0] + 7) DIV 8 AS INT)))
  END)[0]
  FROM (SELECT 1);

-- Plain: 64 rows at a time, compared as hexadecimal digits, and combined as numbers only if the digits do not decide.
CREATE OR REPLACE FUNCTION plain_and(a BINARY, b BINARY)
RETURNS BINARY
COMMENT 'plain_and(a, b): the rows that both plain bitmaps of a block have'
RETURN SELECT transform(array(struct(a, b)), two -> unhex(left(array_join(zip_with(
      regexp_extract_all(rpad(hex(two.a), 16 * (greatest(length(two.a), length(two.b)) DIV 8 + 1), '0'), '.{16}', 0),
      regexp_extract_all(rpad(hex(two.b), 16 * (greatest(length(two.a), length(two.b)) DIV 8 + 1), '0'), '.{16}', 0),
      (x, y) -> CASE
        WHEN x = '0000000000000000' OR y = 'FFFFFFFFFFFFFFFF' THEN x
        WHEN y = '0000000000000000' OR x = 'FFFFFFFFFFFFFFFF' THEN y
        ELSE lpad(hex(CAST(conv(x, 16, -10) AS BIGINT) & CAST(conv(y, 16, -10) AS BIGINT)), 16, '0')
      END), ''),
    2 * greatest(length(two.a), length(two.b)))))[0]
  FROM (SELECT 1);

CREATE OR REPLACE FUNCTION plain_or(a BINARY, b BINARY)
RETURNS BINARY
COMMENT 'plain_or(a, b): the rows that one or both plain bitmaps of a block have'
RETURN SELECT transform(array(struct(a, b)), two -> unhex(left(array_join(zip_with(
      regexp_extract_all(rpad(hex(two.a), 16 * (greatest(length(two.a), length(two.b)) DIV 8 + 1), '0'), '.{16}', 0),
      regexp_extract_all(rpad(hex(two.b), 16 * (greatest(length(two.a), length(two.b)) DIV 8 + 1), '0'), '.{16}', 0),
      (x, y) -> CASE
        WHEN x = '0000000000000000' OR y = 'FFFFFFFFFFFFFFFF' THEN y
        WHEN y = '0000000000000000' OR x = 'FFFFFFFFFFFFFFFF' THEN x
        ELSE lpad(hex(CAST(conv(x, 16, -10) AS BIGINT) | CAST(conv(y, 16, -10) AS BIGINT)), 16, '0')
      END), ''),
    2 * greatest(length(two.a), length(two.b)))))[0]
  FROM (SELECT 1);

CREATE OR REPLACE FUNCTION plain_and_not(a BINARY, b BINARY)
RETURNS BINARY
COMMENT 'plain_and_not(a, b): the rows that the first plain bitmap of a block has and the second has not'
RETURN SELECT transform(array(struct(a, b)), two -> unhex(left(array_join(zip_with(
      regexp_extract_all(rpad(hex(two.a), 16 * (greatest(length(two.a), length(two.b)) DIV 8 + 1), '0'), '.{16}', 0),
      regexp_extract_all(rpad(hex(two.b), 16 * (greatest(length(two.a), length(two.b)) DIV 8 + 1), '0'), '.{16}', 0),
      (x, y) -> CASE
        WHEN x = '0000000000000000' OR y = '0000000000000000' THEN x
        WHEN y = 'FFFFFFFFFFFFFFFF' THEN '0000000000000000'
        ELSE lpad(hex(CAST(conv(x, 16, -10) AS BIGINT) & ~CAST(conv(y, 16, -10) AS BIGINT)), 16, '0')
      END), ''),
    2 * greatest(length(two.a), length(two.b)))))[0]
  FROM (SELECT 1);

-- Row r of 64 is bit r % 8 of byte r / 8. The first byte is the highest byte of the number, so the row is bit r ^ 56.
CREATE OR REPLACE FUNCTION plain_rows(bitmaps BINARY)
RETURNS ARRAY<INT>
COMMENT 'plain_rows(_bitmaps): the rows of a plain bitmap, from 0, ascending'
RETURN SELECT flatten(transform(
    transform(
      regexp_extract_all(hex(bitmaps) || repeat('0', 14), '.{16}', 0),
      word -> IF(word = '0000000000000000', 0L, CAST(conv(word, 16, -10) AS BIGINT))),
    (word, i) -> IF(word = 0, CAST(array() AS ARRAY<INT>), filter(
      sequence(64 * i, 64 * i + 63),
      row -> shiftright(word, row ^ 56) & 1 = 1))))
  FROM (SELECT 1);

CREATE OR REPLACE FUNCTION plain_contains(bitmaps BINARY, row INT)
RETURNS BOOLEAN
COMMENT 'plain_contains(_bitmaps, row): whether a plain bitmap has this row of the block'
RETURN row >= 0
  AND shiftright(CAST(conv('0' || hex(substring(bitmaps, row DIV 8 + 1, 1)), 16, 10) AS INT), row % 8) & 1 = 1;

-- Files: for Parquet and ORC tables, Spark's paths have three slashes and are percent-encoded. Index tables do neither.
CREATE OR REPLACE FUNCTION bucketname(file STRING)
RETURNS STRING
COMMENT 'bucketname(input_file_name()): how index tables name a file that Spark itself read'
RETURN regexp_replace(url_decode(replace(file, '+', '%2B')), '^file:/+', 'file:/');
