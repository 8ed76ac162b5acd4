/** The scans and aggregations that may use indexes, the requests to decide on them, and their replacements. */
package hive_bitmap.catalyst.queries;
