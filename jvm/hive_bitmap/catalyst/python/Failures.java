package hive_bitmap.catalyst.python;

import java.nio.channels.ClosedByInterruptException;
import org.apache.spark.sql.internal.SQLConf;

/** Handles errors in the use of an index. They do not reach the user, because Spark can execute the plan without an index. */
public final class Failures {
    private static final String JOB_CANCELLED = "SPARK_JOB_CANCELLED";

    private Failures() {}

    /**
     * Logs an error, so that the caller falls back to Spark's own plan. Throws the error if the session is strict, or if the query
     * itself was cancelled.
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
            if (String.valueOf(cause.getMessage()).contains(JOB_CANCELLED)) return true; // errors from Python have it in their text
        }
        return false;
    }

    /** Throws a checked exception without declaring it, as Spark's Scala methods do. */
    @SuppressWarnings("unchecked")
    public static <E extends Throwable> E unchecked(Throwable error) throws E {
        throw (E) error;
    }
}
