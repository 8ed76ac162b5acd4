"""Propose the indexes that would save observed queries most, and list unused indexes.

The JVM records the queries. For each scan, the optimizer rule calls `observing/Application`. `ColumnTests` reduces the
conjuncts of the scan to a kind of test for each column, without values. These tests and the grouping columns (from
`Aggregates`) are the `QueryShape` of the scan. `QueryRecord` counts scans by shape. The `Observation` of a scan
records the decision on the scan. Spark may optimize a scan several times: for example, it optimizes a subquery alone,
and again with its query. The decision is still recorded only once, because the id of the scan's first column
identifies the scan in the query's `QueryPlanningTracker`. Spark prunes partitions after the rule, so `PlanIndexes`
adds the bytes of the remaining files. `IndexMetrics` counts the same decisions for Spark's metrics. Each SparkContext
has its own record.

`observed` reads the record from the JVM or from a file. `useful_columns` determines the new indexes that could serve a
shape, alone or together. `estimating` estimates each index from a sample of its table. `gains` computes what an index
saves a query that looks up average keys, by the planner's own prices (`planner.strategy_costs`, `prices`,
`count_budget`). `index_set` chooses indexes greedily: each step takes the index that saves most in addition to the
indexes chosen before. `advise` runs these steps, and `proposals` has the advice as a value, as text and as HTML.
"""

__all__ = ["advise", "proposals"]
