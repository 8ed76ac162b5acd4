/**
 * Statistics of an application's queries and of what the indexes do for them: counters for Spark's metrics, and a bounded record
 * for {@code hive_bitmap.advise}, in memory and in a file. Queries wait for none of it.
 */
package hive_bitmap.catalyst.observing;
