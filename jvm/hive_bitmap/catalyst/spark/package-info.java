/** Additions to Spark's own classes, independent of indexes: collections, plan nodes, rows, conditions as JSON. */
package hive_bitmap.catalyst.spark;
