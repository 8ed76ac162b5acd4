/** Requests to Python while a plan is executed. Python reads few rows without a Spark job, or compares files. */
package hive_bitmap.catalyst.fetching;
