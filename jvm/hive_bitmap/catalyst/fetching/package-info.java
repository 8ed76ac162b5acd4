/** Small results that Python reads in its own process when a plan is executed, without a Spark job. */
package hive_bitmap.catalyst.fetching;
