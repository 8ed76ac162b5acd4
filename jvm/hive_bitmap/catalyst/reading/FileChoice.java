package hive_bitmap.catalyst.reading;

import java.io.Serializable;
import java.util.Arrays;

/**
 * The byte ranges to read of an indexed file, and the fingerprint by which the task checks that it is still that file.
 *
 * @param size bytes
 * @param modified milliseconds since 1970
 * @param tag the store's ETag, empty if it has none; of a local file its inode and the nanoseconds of its last change
 * @param tailCrc32 CRC-32 of the last 65,536 bytes
 * @param ranges begin and end of each range, in ascending order; empty if nothing has to be read of the file
 */
public record FileChoice(long size, long modified, String tag, long tailCrc32, long[] ranges) implements Serializable {
    /** The key of a choice in the constant metadata of a file. */
    public static final String KEY = "hive_bitmap.choice";

    /** The tag of a file that is never written again under its path, so that there is nothing to check. */
    private static final String IMMUTABLE = "immutable";

    boolean isImmutable() {
        return tag.equals(IMMUTABLE);
    }

    public boolean readsNothing() {
        return ranges.length == 0;
    }

    public long bytes() {
        long sum = 0;
        for (int at = 0; at < ranges.length; at += 2) sum += ranges[at + 1] - ranges[at];
        return sum;
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
