/** Writes to indexed tables, as they are committed in this JVM: Python is told of them, and refreshes the indexes. */
package hive_bitmap.catalyst.following;
