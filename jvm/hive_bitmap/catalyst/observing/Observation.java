package hive_bitmap.catalyst.observing;

import java.util.List;

/** Records the decision on a scan of a query. {@link #NONE} records nothing. */
public final class Observation {
    /** The observation for plans that are only made to explain a query. */
    public static final Observation NONE = new Observation(null, null, null, -1);

    private final IndexMetrics metrics;
    private final QueryRecord queries;
    private final QueryShape shape;
    private long bytes;
    private boolean isLeftAlone;
    private boolean isServed;

    /**
     * Adds the scan to the record.
     *
     * @param shape the shape of the query; null if the scan tests and counts nothing, so that it is not in the record
     * @param bytes the bytes of the files that Spark would read, -1 if unknown
     */
    Observation(IndexMetrics metrics, QueryRecord queries, QueryShape shape, long bytes) {
        this.metrics = metrics;
        this.queries = queries;
        this.shape = shape;
        this.bytes = bytes;
    }

    /**
     * Records that the scan is left alone, with the code of the reason. It is counted once, even if Spark optimizes the scan again.
     */
    public void leftAlone(String reason) {
        if (metrics == null || isLeftAlone) return;
        isLeftAlone = true;
        metrics.leftAlone(reason);
    }

    /** Records that the named indexes narrow the scan. {@code saved} is the number of bytes of its files that need not be read. */
    public void narrowed(List<String> indexes, long saved) {
        if (metrics == null) return;
        metrics.narrowed(saved);
        served(indexes);
    }

    /** Records that no row satisfies the condition, so that nothing is read. */
    public void emptied() {
        narrowed(List.of(), Math.max(bytes, 0));
    }

    /**
     * Records that the named indexes answer the aggregation over the scan. {@code saved} is the number of bytes of its files that
     * need not be read.
     */
    public void answered(List<String> indexes, long saved) {
        if (metrics == null) return;
        metrics.answered(saved);
        served(indexes);
    }

    private void served(List<String> indexes) {
        if (shape == null || isServed) return;
        isServed = true;
        queries.served(shape, bytes);
        for (String index : indexes) queries.addUse(shape.database(), shape.table(), index);
    }

    /** Returns whether the record lacks the bytes of the scan's files. */
    boolean isUnsized() {
        return shape != null && bytes < 0 && !isServed;
    }

    /** Records the bytes of the files, which were unknown when the scan was observed. */
    void sized(long size) {
        bytes = size;
        queries.sized(shape, size);
    }
}
