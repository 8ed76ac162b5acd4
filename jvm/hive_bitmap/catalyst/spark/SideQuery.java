package hive_bitmap.catalyst.spark;

import java.util.Arrays;
import java.util.List;
import java.util.function.Supplier;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.CommandExecutionMode;
import org.apache.spark.sql.execution.SparkPlan;

/**
 * Runs queries that help to plan or answer another query. In the threads that run them, the optimizer rule and the parser's
 * extension do nothing, so these queries do not call Python.
 */
public final class SideQuery {
    private static final int FIRST_ROWS = 10_000;
    private static final ThreadLocal<Boolean> RUNNING = ThreadLocal.withInitial(() -> false);

    private SideQuery() {}

    /** Returns whether this thread runs a side query, or other work in {@link #within}. */
    public static boolean isRunning() {
        return RUNNING.get();
    }

    /** Executes a plan and returns its rows. */
    public static List<InternalRow> rows(SparkSession session, LogicalPlan plan) {
        return within(() -> Arrays.asList(plan(session, plan).executeCollect()));
    }

    /**
     * Executes a plan and returns its rows. Throws {@link AnswerSize.TooLarge} if they take more than {@code limit} bytes. Not much
     * more than that is fetched: the size of the first rows shows how many rows fit.
     */
    public static List<InternalRow> rows(SparkSession session, LogicalPlan plan, long limit) {
        return within(() -> {
            SparkPlan planned = plan(session, plan);
            InternalRow[] rows = planned.executeTake(FIRST_ROWS);
            AnswerSize firstSize = sized(rows, limit);
            if (rows.length < FIRST_ROWS) return Arrays.asList(rows);
            int maxRows = (int) Math.min(firstSize.rowsThatFit(rows.length), Integer.MAX_VALUE - 1);
            rows = planned.executeTake(maxRows + 1);
            if (rows.length > maxRows) throw new AnswerSize.TooLarge(limit);
            sized(rows, limit);
            return Arrays.asList(rows);
        });
    }

    private static AnswerSize sized(InternalRow[] rows, long limit) {
        AnswerSize size = new AnswerSize(limit);
        for (InternalRow row : rows) size.add(row);
        return size;
    }

    /** Returns the physical plan of a logical plan, without use of indexes. */
    public static SparkPlan plan(SparkSession session, LogicalPlan plan) {
        return within(() -> ((org.apache.spark.sql.classic.SparkSession) session).sessionState()
                .executePlan(plan, CommandExecutionMode.SKIP()).executedPlan());
    }

    /** Optimizes a logical plan, without use of indexes. */
    public static LogicalPlan optimized(SparkSession session, LogicalPlan plan) {
        return within(() -> ((org.apache.spark.sql.classic.SparkSession) session).sessionState()
                .executePlan(plan, CommandExecutionMode.SKIP()).optimizedPlan());
    }

    /** Does some work in this thread, with all its queries as side queries. */
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
