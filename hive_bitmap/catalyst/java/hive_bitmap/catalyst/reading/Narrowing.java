package hive_bitmap.catalyst.reading;

import java.io.Serializable;

/** What is read of a table, of all that Spark would read: for EXPLAIN and for Spark's UI. */
public record Narrowing(String label, long blocks, long blocksOfAll, long files, long filesOfAll) implements Serializable {}
