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
 * Queries that are executed in order to plan or to answer another query. The optimizer rule and the parser's extension do
 * nothing in the threads that run them, so that such a query does not ask Python in turn.
 */
public final class SideQuery {
    private static final int FIRST_ROWS = 10_000;
    private static final ThreadLocal<Boolean> RUNNING = ThreadLocal.withInitial(() -> false);

    private SideQuery() {}

    /** Whether this thread runs such a query, or other work in {@link #within}. */
    public static boolean isRunning() {
        return RUNNING.get();
    }

    /** Executes a plan and returns its rows. */
    public static List<InternalRow> rows(SparkSession session, LogicalPlan plan) {
        return within(() -> Arrays.asList(plan(session, plan).executeCollect()));
    }

    /**
     * Executes a plan and returns its rows. Throws {@link AnswerSize.TooLarge} if they take more than {@code limit} bytes, of
     * which no more than about that many are fetched: how many rows fit is told by the first ones.
     */
    public static List<InternalRow> rows(SparkSession session, LogicalPlan plan, long limit) {
        return within(() -> {
            SparkPlan planned = plan(session, plan);
            InternalRow[] found = planned.executeTake(FIRST_ROWS);
            AnswerSize first = sized(found, limit);
            if (found.length < FIRST_ROWS) return Arrays.asList(found);
            int most = (int) Math.min(first.rowsThatFit(found.length), Integer.MAX_VALUE - 1);
            found = planned.executeTake(most + 1);
            if (found.length > most) throw new AnswerSize.TooLarge(limit);
            sized(found, limit);
            return Arrays.asList(found);
        });
    }

    private static AnswerSize sized(InternalRow[] rows, long limit) {
        AnswerSize size = new AnswerSize(limit);
        for (InternalRow row : rows) size.add(row);
        return size;
    }

    /** Returns the physical plan of a logical one, in which no index is used. */
    public static SparkPlan plan(SparkSession session, LogicalPlan plan) {
        return within(() -> ((org.apache.spark.sql.classic.SparkSession) session).sessionState()
                .executePlan(plan, CommandExecutionMode.SKIP()).executedPlan());
    }

    /** Returns the optimized plan of a logical one, in which no index is used. */
    public static LogicalPlan optimized(SparkSession session, LogicalPlan plan) {
        return within(() -> ((org.apache.spark.sql.classic.SparkSession) session).sessionState()
                .executePlan(plan, CommandExecutionMode.SKIP()).optimizedPlan());
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
