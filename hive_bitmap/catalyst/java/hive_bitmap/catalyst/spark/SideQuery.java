package hive_bitmap.catalyst.spark;

import java.util.Arrays;
import java.util.List;
import java.util.function.Supplier;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.CommandExecutionMode;

/**
 * Queries that are executed in order to plan or to answer another query. The optimizer rule and the parser's extension do
 * nothing in the threads that run them, so that such a query does not ask Python in turn.
 */
public final class SideQuery {
    private static final ThreadLocal<Boolean> RUNNING = ThreadLocal.withInitial(() -> false);

    private SideQuery() {}

    /** Whether this thread runs such a query, or other work in {@link #within}. */
    public static boolean isRunning() {
        return RUNNING.get();
    }

    /** Executes a plan and returns its rows. */
    public static List<InternalRow> rows(SparkSession session, LogicalPlan plan) {
        return within(() -> Arrays.asList(((org.apache.spark.sql.classic.SparkSession) session).sessionState()
                .executePlan(plan, CommandExecutionMode.SKIP()).executedPlan().executeCollect()));
    }

    /** Does work whose queries are all side queries. */
    public static <T> T within(Supplier<T> work) {
        boolean before = RUNNING.get();
        RUNNING.set(true);
        try {
            return work.get();
        } finally {
            RUNNING.set(before);
        }
    }
}
