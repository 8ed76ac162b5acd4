package hive_bitmap.catalyst.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/**
 * Limits the bytes that the rows of an answer take in the driver, and in the task that they are sent to. The same measure limits
 * the keys that Python sends; see hive_bitmap/core/answering/answer_size.py.
 */
public final class AnswerSize {
    private static final int ROW_BYTES = 128; // the overhead of a row in objects; as in answer_size.py
    private final long limit;
    private long bytes;

    public AnswerSize(long limit) {
        this.limit = limit;
    }

    /** Thrown if the rows are too large; Spark's own plan then computes them in tasks. */
    public static final class TooLarge extends RuntimeException {
        TooLarge(long limit) {
            super("its rows take more than " + limit + " bytes in the driver", null, false, false);
        }
    }

    /** Adds a row; throws TooLarge beyond the limit. */
    public void add(InternalRow row) {
        addBytes(ROW_BYTES + (row instanceof UnsafeRow unsafe ? unsafe.getSizeInBytes() : 0));
    }

    /** Adds the bytes of a value; throws TooLarge beyond the limit. */
    public void addBytes(long added) {
        bytes += added;
        if (bytes > limit) throw new TooLarge(limit);
    }

    /** Estimates how many rows fit, from the mean size of the {@code rows} rows added so far. */
    long rowsThatFit(long rows) {
        return rows == 0 ? Long.MAX_VALUE : limit * rows / Math.max(bytes, 1);
    }
}
