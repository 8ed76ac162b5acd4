/** Reports writes to indexed tables that are committed in this JVM to Python, which refreshes the indexes. */
package hive_bitmap.catalyst.following;
