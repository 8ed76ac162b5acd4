package hive_bitmap.catalyst.reading;

import java.io.Serializable;
import java.util.Arrays;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import scala.Option;

/**
 * The byte ranges to read of an indexed file, and the fingerprint by which the task checks that the file is unchanged.
 *
 * @param size bytes
 * @param modified milliseconds since 1970
 * @param tag the store's ETag, empty if there is none; for a local file its inode and the nanoseconds of its last change
 * @param tailCrc32 CRC-32 of the last 65,536 bytes
 * @param ranges begin and end of each range, in ascending order; empty if nothing of the file has to be read
 */
public record FileChoice(long size, long modified, String tag, long tailCrc32, long[] ranges) implements Serializable {
    /** The key of a choice in the constant metadata of a file. */
    public static final String KEY = "hive_bitmap.choice";

    /** The tag of a file that is never replaced under its path, so that nothing is checked. */
    private static final String IMMUTABLE = "immutable";

    /** The choice for a file that is neither read nor checked. */
    static final FileChoice NOTHING = new FileChoice(0, 0, IMMUTABLE, 0, new long[0]);

    boolean isImmutable() {
        return tag.equals(IMMUTABLE);
    }

    public boolean readsNothing() {
        return ranges.length == 0;
    }

    public long bytes() {
        return bytes(0, Long.MAX_VALUE);
    }

    /** Returns how many bytes of the split with this start and length are read. */
    long bytes(long start, long length) {
        long sum = 0, end = length > Long.MAX_VALUE - start ? Long.MAX_VALUE : start + length;
        for (int at = 0; at < ranges.length; at += 2) {
            sum += Math.max(Math.min(ranges[at + 1], end) - Math.max(ranges[at], start), 0);
        }
        return sum;
    }

    /**
     * Returns whether the split with this start and length has to be read or checked. If no range of the file is read, only its
     * first split is: it checks the whole file, and reads all of it if it has changed.
     */
    boolean isRead(long start, long length) {
        return isImmutable() ? bytes(start, length) > 0 : !readsNothing() || start == 0;
    }

    /** Returns the choice for the file of a split; null if the whole file is read. */
    static FileChoice of(PartitionedFile split) {
        Option<Object> choice = ((scala.collection.Map<String, Object>) split.otherConstantMetadataColumnValues()).get(KEY);
        return choice.isEmpty() ? null : (FileChoice) choice.get();
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof FileChoice choice
                && size == choice.size && modified == choice.modified && tag.equals(choice.tag)
                && tailCrc32 == choice.tailCrc32 && Arrays.equals(ranges, choice.ranges);
    }

    @Override
    public int hashCode() {
        return Long.hashCode(size * 31 + modified) * 31 + Arrays.hashCode(ranges);
    }
}
