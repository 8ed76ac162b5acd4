/**
 * The scans and aggregations of a query that may use indexes, the plan nodes that replace them, and the calls to the Python
 * process that decides on them.
 */
package hive_bitmap.catalyst.queries;
