/** Restricts Spark's own readers to selected files and blocks. The tasks check that each file is unchanged since planning. */
package hive_bitmap.catalyst.reading;
