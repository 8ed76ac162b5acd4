package hive_bitmap.catalyst.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/**
 * The bytes that rows of an answer may take in the driver, and in the task to which they are sent. The keys that Python sends
 * are bounded in the same measure; see hive_bitmap/core/answering/answer_size.py.
 */
public final class AnswerSize {
    private static final int ROW_BYTES = 128; // of the objects that hold a row; as in answer_size.py
    private final long limit;
    private long bytes;

    public AnswerSize(long limit) {
        this.limit = limit;
    }

    /** The rows are too large. Spark's own plan then computes them in tasks. */
    public static final class TooLarge extends RuntimeException {
        TooLarge(long limit) {
            super("its rows take more than " + limit + " bytes in the driver", null, false, false);
        }
    }

    /** Adds a row. Throws TooLarge beyond the limit. */
    public void add(InternalRow row) {
        addBytes(ROW_BYTES + (row instanceof UnsafeRow unsafe ? unsafe.getSizeInBytes() : 0));
    }

    /** Adds a value of so many bytes. Throws TooLarge beyond the limit. */
    public void addBytes(long more) {
        bytes += more;
        if (bytes > limit) throw new TooLarge(limit);
    }

    /** Returns how many rows of the same size as those that were added would fit. */
    long rowsThatFit(long added) {
        return added == 0 ? Long.MAX_VALUE : limit * added / Math.max(bytes, 1);
    }
}
