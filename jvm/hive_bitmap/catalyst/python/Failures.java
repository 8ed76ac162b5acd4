package hive_bitmap.catalyst.python;

import java.nio.channels.ClosedByInterruptException;
import org.apache.spark.sql.internal.SQLConf;

/** Errors in the use of an index. They never reach the user, for Spark can execute the plan as it was without an index. */
public final class Failures {
    private static final String JOB_CANCELLED = "SPARK_JOB_CANCELLED";

    private Failures() {}

    /**
     * Logs an error, so that the caller goes on with Spark's own plan. Throws it if the session is strict, or if it says that
     * the query itself was cancelled.
     */
    public static void goOn(Throwable error) {
        if (Settings.of(SQLConf.get()).strict() || isCancellation(error)) throw Failures.<RuntimeException>unchecked(error);
        if (Helper.isPythonGone()) Reports.away();
        else Reports.failed(error);
    }

    private static boolean isCancellation(Throwable error) {
        if (Thread.currentThread().isInterrupted()) return true;
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof InterruptedException || cause instanceof ClosedByInterruptException) return true;
            if (String.valueOf(cause.getMessage()).contains(JOB_CANCELLED)) return true; // Python tells it as text
        }
        return false;
    }

    /** Spark's Scala throws checked exceptions from methods that declare none. */
    @SuppressWarnings("unchecked")
    public static <E extends Throwable> E unchecked(Throwable error) throws E {
        throw (E) error;
    }
}
