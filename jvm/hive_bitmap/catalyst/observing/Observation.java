package hive_bitmap.catalyst.observing;

import java.util.List;

/** A scan of a query, of which the application is told what is decided. Of {@link #NONE} nothing is noted. */
public final class Observation {
    /** The observation of a plan that is made only to be explained. */
    public static final Observation NONE = new Observation(null, null, -1, false);

    private final Application application;
    private final QueryShape shape;
    private final long bytes;
    private final boolean isFirst;

    /**
     * @param shape null if the scan tests and counts nothing
     * @param bytes the bytes of the files that Spark would read, -1 if they are not known
     * @param isFirst whether the scan is seen for the first time: Spark optimizes a subquery by itself, and again with its query
     */
    Observation(Application application, QueryShape shape, long bytes, boolean isFirst) {
        this.application = application;
        this.shape = shape;
        this.bytes = bytes;
        this.isFirst = isFirst;
    }

    /** Notes that the scan is Spark's own, for the reason with this code. */
    public void leftAlone(String reason) {
        if (application != null && isFirst) application.metrics.leftAlone(reason);
    }

    /** Notes that indexes, by their names, narrow the scan: {@code saved} bytes of its files need not be read. */
    public void narrowed(List<String> indexes, long saved) {
        if (application == null) return;
        application.metrics.narrowed(saved);
        served(indexes);
    }

    /** Notes that no row satisfies the condition, so that nothing is read. */
    public void emptied() {
        narrowed(List.of(), Math.max(bytes, 0));
    }

    /** Notes that indexes, by their names, answer the aggregation over the scan: {@code saved} bytes of its files need not be read. */
    public void answered(List<String> indexes, long saved) {
        if (application == null) return;
        application.metrics.answered(saved);
        served(indexes);
    }

    private void served(List<String> indexes) {
        if (shape == null) return;
        application.queries.addServed(shape, bytes);
        for (String index : indexes) application.queries.addUse(shape.database(), shape.table(), index);
    }
}
