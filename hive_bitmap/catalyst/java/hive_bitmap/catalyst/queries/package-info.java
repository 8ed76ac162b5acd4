/**
 * What a query asks of indexes and what takes the place of its scans and aggregations; the Python process that decides, and
 * how it is asked.
 */
package hive_bitmap.catalyst.queries;
