"""Advise on indexes.

It proposes a set to create for the queries so far, and lists unused indexes. The set is what the queries would have
gained most from. `observed` reads what the optimizer rule has recorded of the queries, `useful_columns` determines the
columns that could serve them, and `gains` what an index on these would save, at the planner's prices. `index_set`
chooses, `advise` combines the results, and `proposals` is the advice as a value, as text and as HTML.

`UseIndexes` has each scan observed (`observing/Application`) before anything is asked about it: `ColumnTests` reduces
its conjuncts to a kind of test for each column, without values; with the columns that `Aggregates` would count by
they are the `QueryShape` under which `QueryRecord` counts. The `Observation` that a scan carries takes down what is
decided, once however often Spark optimizes the scan (a subquery is optimized by itself and with its query: the id of
the first column in the query's `QueryPlanningTracker` tells). Spark prunes partitions after the rule, so
`PlanIndexes` adds how many bytes are left. `IndexMetrics` counts the same decisions for Spark. All of it belongs to a
SparkContext, and begins anew with another one.

`advising/observed` reads the record, from the JVM or the lines of a file. `useful_columns` says which indexes could
serve a shape beside those that exist, alone or together. For these `estimate` samples the table, and `gains` makes
the files and blocks of a query of average keys, so that the planner's own prices (`planner.strategy_costs`, `prices`,
`count_budget`) say what is saved. `index_set` chooses greedily by what each step saves beside the ones before, and
`proposals` is the advice as value, text and HTML.
"""

__all__ = ["advise", "proposals"]
