/** Writes to indexed tables that are committed in this JVM. They are sent to Python, which refreshes the indexes. */
package hive_bitmap.catalyst.following;
