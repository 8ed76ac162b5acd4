package hive_bitmap.catalyst.queries;

import java.util.List;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.SparkPlan;

/**
 * What the first execution of an {@link IndexAnswer} found. Later executions of the same plan give these rows again, whatever
 * happened to the table since: the other stages of an adaptive plan, too, keep what they have computed, and one result must
 * not mix two states of a table.
 */
final class FirstExecution {
    private boolean executed;
    private List<InternalRow> rows;
    private SparkPlan plan;

    /** Returns the rows that {@code compute} gave when it first returned, or null if it gave none. */
    synchronized List<InternalRow> rows(Supplier<List<InternalRow>> compute) {
        if (!executed) rows = compute.get();
        executed = true;
        return rows;
    }

    /** Returns the plan that is executed if there are no rows, as {@code make} first gave it. */
    synchronized SparkPlan plan(Supplier<SparkPlan> make) {
        if (plan == null) plan = make.get();
        return plan;
    }
}
