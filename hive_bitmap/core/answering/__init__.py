"""Answer aggregate queries from the index alone.

Rows are counted in shards, in total or by key. `count_budget` estimates how much time a count would take, and
`answer_size` how much memory the answer would take. `tally` counts. If a query needs only MIN and MAX of a column,
`extremes` reads only the row groups that may have these two keys.

If one index has all columns of a query, `tally` adds up cardinalities. Otherwise, `tally` counts the bits that bitmaps
share with the selection (`bitmaps/cached_bitmaps`), for all keys of a row group of a shard at once. Each row of a block
has one key, so the counts of a block must add up to the number of its selected rows. If the sum is wrong, the index is
damaged and Spark counts the files. Spark also counts if Spark is faster (`count_budget`).

If rows of an index hold partial aggregates of other columns, `partial_sums` adds these up by key.

A query may need only totals of a column with many keys, such as the number of distinct keys: of the whole column, or
for each group of another column (`group_summaries`). Or it may group by a column with many keys, and need only the
first groups (`first_groups`). Then `key_merge` merges the sorted keys of all shards, and never holds all of them.
Otherwise the driver holds the keys of an answer, and the bytes of these keys have a limit (`hive_bitmap.answer_bytes`).
The limit is checked three times: for an estimate during planning (`answer_size`), during counting
(`tally.RunningCounts`), and in the JVM (`AnswerSize`). There, the keys that Spark counts in new files and the rows of
the result count, too. Beyond the limit, `IndexAnswer` executes Spark's own aggregation, whose rows stay in the tasks.
Answers that were too large are remembered until the index is built again.
"""

__all__ = [
    "answer_size",
    "count_budget",
    "extremes",
    "first_groups",
    "group_summaries",
    "key_merge",
    "partial_sums",
    "tally",
]
