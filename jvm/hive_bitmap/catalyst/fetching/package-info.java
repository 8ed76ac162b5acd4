/** Few rows that Python reads in its own process when a plan is executed, without a job of Spark. */
package hive_bitmap.catalyst.fetching;
