/** Restricts Spark's own readers to selected files and blocks. Tasks check that each file is unchanged since it was indexed. */
package hive_bitmap.catalyst.reading;
