/** The scans and aggregations of a query that may use indexes, the requests to decide on them, and what replaces them. */
package hive_bitmap.catalyst.queries;
