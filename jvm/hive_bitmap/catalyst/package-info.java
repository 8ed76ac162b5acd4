/** The extension of Spark: the optimizer rule, the planner strategy, and the methods that Python calls. */
package hive_bitmap.catalyst;
