/** Additions to Spark's own classes that know nothing of indexes: collections, plan nodes, rows, conditions as JSON. */
package hive_bitmap.catalyst.spark;
