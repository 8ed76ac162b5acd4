/**
 * Tables of Delta: what their log says, and scans that Delta plans and that are narrowed then. No class of Delta is named in
 * the code, so that it runs without; what is not as expected in the Delta that is there leaves a scan to Spark.
 */
package hive_bitmap.catalyst.lake;
