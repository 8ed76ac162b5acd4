package hive_bitmap.catalyst.reading;

import java.io.Serializable;

/** How many blocks and files a narrowed scan reads, and of how many; shown by EXPLAIN and in Spark's UI. */
public record Narrowing(String label, long blocks, long blocksOfAll, long files, long filesOfAll) implements Serializable {}
