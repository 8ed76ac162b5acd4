package hive_bitmap.catalyst.queries;

import java.util.ArrayList;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Collects the decision on each scan, a JSON object, if this thread is explaining a query. */
public final class Reports {
    private static final Logger LOG = LoggerFactory.getLogger("hive_bitmap");
    private static final ThreadLocal<List<String>> WANTED = new ThreadLocal<>();

    private Reports() {}

    public static boolean areWanted() {
        return WANTED.get() != null;
    }

    public static void add(List<String> reports) {
        reports.forEach(LOG::debug);
        if (areWanted()) WANTED.get().addAll(reports);
    }

    public static void failed(Throwable error) {
        LOG.warn("indexes are not used, the query is Spark's own: {}", error.toString());
        if (areWanted()) WANTED.get().add(Planner.report("error", error.toString()));
    }

    public static void away() {
        String detail = "the Python process that decides is starting or has ended";
        LOG.debug("indexes are not used, the query is Spark's own: {}", detail);
        if (areWanted()) WANTED.get().add(Planner.report("away", detail));
    }

    static void late(double seconds) {
        String detail = "planning took longer than " + seconds + " s";
        LOG.warn("indexes are not used, the query is Spark's own: {}", detail);
        if (areWanted()) WANTED.get().add(Planner.report("late", detail));
    }

    /** Plans a DataFrame again and returns the reports of all its scans. */
    public static List<String> of(org.apache.spark.sql.classic.Dataset<?> frame) {
        List<String> found = new ArrayList<>();
        WANTED.set(found);
        try {
            frame.sparkSession().sessionState().executePlan(frame.queryExecution().analyzed(),
                    org.apache.spark.sql.execution.CommandExecutionMode.SKIP()).optimizedPlan();
        } finally {
            WANTED.remove();
        }
        return found;
    }
}
