/**
 * Delta and Iceberg tables: the facts in their logs, and their narrowed scans. The code names no class of Delta or Iceberg, so it
 * runs without them. If the installed version differs from what is expected, the scan is left alone.
 */
package hive_bitmap.catalyst.lake;
