package hive_bitmap.catalyst;

import java.io.Serializable;

/** What is read of a table, of all that Spark would read: for EXPLAIN and for Spark's UI. */
record Narrowing(String label, long blocks, long blocksOfAll, long files, long filesOfAll) implements Serializable {}
