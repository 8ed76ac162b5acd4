/**
 * Statistics of an application's queries and their use of indexes: counters for Spark's metrics, and a bounded record for
 * {@code hive_bitmap.advise}, in memory and in a file. Queries never wait for them.
 */
package hive_bitmap.catalyst.observing;
