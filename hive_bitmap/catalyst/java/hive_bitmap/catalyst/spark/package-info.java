/** Small pieces on Spark's own classes, which know of no index: Scala's collections, plan nodes, rows, expressions as JSON. */
package hive_bitmap.catalyst.spark;
