/** What Spark is extended by: the optimizer rule, the planner strategy, and what Python calls. */
package hive_bitmap.catalyst;
