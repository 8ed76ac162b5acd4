package hive_bitmap.catalyst.queries;

import java.util.List;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.SparkPlan;

/**
 * The result of the first execution of an {@link IndexAnswer}. Later executions of the same plan return the same rows, even if the
 * table has changed: the other stages of an adaptive plan also keep what they have computed, and one result must not mix two states
 * of a table.
 */
final class FirstExecution {
    private boolean executed;
    private List<InternalRow> rows;
    private SparkPlan plan;

    /** Returns the rows of the first {@code compute} that did not throw. Null if it returned null. */
    synchronized List<InternalRow> rows(Supplier<List<InternalRow>> compute) {
        if (!executed) rows = compute.get();
        executed = true;
        return rows;
    }

    /** Returns the plan to execute if there are no rows. Only the first call makes it. */
    synchronized SparkPlan plan(Supplier<SparkPlan> make) {
        if (plan == null) plan = make.get();
        return plan;
    }
}
