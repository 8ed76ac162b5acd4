package hive_bitmap.catalyst.observing;

import java.util.List;

/** A scan of a query, which takes down what is decided on it. Of {@link #NONE} nothing is noted. */
public final class Observation {
    /** The observation of a plan that is made only to be explained. */
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
     * @param shape null if the scan tests and counts nothing, so that it is not recorded
     * @param bytes the bytes of the files that Spark would read, -1 if they are not known
     */
    Observation(IndexMetrics metrics, QueryRecord queries, QueryShape shape, long bytes) {
        this.metrics = metrics;
        this.queries = queries;
        this.shape = shape;
        this.bytes = bytes;
    }

    /** Notes that the scan is Spark's own, for the reason with this code; once, if Spark optimizes it more than once. */
    public void leftAlone(String reason) {
        if (metrics == null || isLeftAlone) return;
        isLeftAlone = true;
        metrics.leftAlone(reason);
    }

    /** Notes that indexes, by their names, narrow the scan: {@code saved} bytes of its files need not be read. */
    public void narrowed(List<String> indexes, long saved) {
        if (metrics == null) return;
        metrics.narrowed(saved);
        served(indexes);
    }

    /** Notes that no row satisfies the condition, so that nothing is read. */
    public void emptied() {
        narrowed(List.of(), Math.max(bytes, 0));
    }

    /** Notes that indexes, by their names, answer the aggregation over the scan: {@code saved} bytes of its files need not be read. */
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

    /** Whether the bytes of the files are not known, of a scan of which they should be. */
    boolean isUnsized() {
        return shape != null && bytes < 0 && !isServed;
    }

    /** Notes the bytes of the files, which are known only now. */
    void sized(long found) {
        bytes = found;
        queries.sized(shape, found);
    }
}
