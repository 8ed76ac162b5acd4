"""Answer counts of rows from the index alone.

They are counted in shards, in total or by key. `count_budget` and `answer_size` estimate what a count would read and
hold before it begins; `tally` counts.

`reading/aggregates` counts the rows of a predicate by key. If one index holds all columns, `answering/tally` adds
cardinalities up; otherwise it counts the bits that bitmaps share with the selection (`bitmaps/cached_bitmaps`), for
all keys of a row group of a shard at once. Each row of a block has one key, so the counts of a block must add up to
the number of rows that were selected in it. If they do not, the index is damaged and Spark counts the files.
`answering/count_budget` leaves to Spark what Spark does faster.

The driver holds the keys of an answer, so their bytes are bounded (`hive_bitmap.answer_bytes`): by an estimate when
the query is planned (`answering/answer_size`), while they are counted (`tally.Counts`), and in the JVM
(`AnswerSize`), also for the keys that Spark counts in new files and for the rows that result. Beyond the bound,
`IndexAnswer` executes the aggregation of the query in its place, whose rows stay in the tasks. That it was too
large is remembered until the index is built again.
"""

__all__ = ["answer_size", "count_budget", "extremes", "tally"]
