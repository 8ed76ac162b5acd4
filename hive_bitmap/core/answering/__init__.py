"""Answer counts of rows from the index alone.

Rows are counted in shards, in total or by key. `count_budget` and `answer_size` estimate beforehand what a count would
read and hold in memory; `tally` counts.

If one index has all columns of a query, `tally` adds up cardinalities; otherwise it counts the bits that bitmaps share
with the selection (`bitmaps/cached_bitmaps`), for all keys of a row group of a shard at once. Each row of a block has
one key, so the counts of a block must add up to the number of its selected rows. If they do not, the index is damaged
and Spark counts the files. Spark also counts if it is faster (`count_budget`).

If a query needs only numbers of a column with many keys, or its first groups, `key_merge` merges the sorted keys of all
shards, and no list of keys is held. Otherwise the driver holds the keys of an answer, so their bytes have a limit
(`hive_bitmap.answer_bytes`). The limit is checked three times: for an estimate during planning (`answer_size`), during
counting (`tally.Counts`), and in the JVM (`AnswerSize`), which adds the keys that Spark counts in new files, and the
resulting rows. Beyond the limit, `IndexAnswer` executes Spark's own aggregation, whose rows stay in the tasks. An
answer that was too large is remembered until the index is built again.
"""

__all__ = ["answer_size", "count_budget", "extremes", "index_rows", "key_merge", "tally"]
