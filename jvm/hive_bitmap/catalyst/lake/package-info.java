/**
 * Tables of Delta and of Iceberg: what their logs say, and scans that these plan and that are narrowed then. No class of theirs is
 * named in the code, so that it runs without; what is not as expected in the version that is there leaves a scan to Spark.
 */
package hive_bitmap.catalyst.lake;
