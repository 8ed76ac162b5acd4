package hive_bitmap.catalyst.reading;

import java.io.Serializable;

/** The numbers of blocks and files of a narrowed scan, read and in total. EXPLAIN and Spark's UI show them. */
public record Narrowing(String label, long blocks, long blocksOfAll, long files, long filesOfAll) implements Serializable {}
