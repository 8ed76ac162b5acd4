package hive_bitmap.catalyst.reading;

import java.io.Serializable;

/**
 * The numbers of blocks and files that a narrowed scan reads, and those of all its blocks and files, for EXPLAIN and Spark's UI.
 */
public record Narrowing(String label, long blocks, long blocksOfAll, long files, long filesOfAll) implements Serializable {}
