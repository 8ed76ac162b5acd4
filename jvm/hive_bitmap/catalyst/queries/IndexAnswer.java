package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.spark.Leaf;
import hive_bitmap.catalyst.spark.SideQuery;
import hive_bitmap.catalyst.spark.TopGroups;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Repartition;
import org.apache.spark.sql.execution.SparkPlan;

/**
 * An aggregation that is computed from the index when the plan is first executed. Later executions of the same plan return the
 * same rows, even if the table has changed: the other stages of an adaptive plan also keep what they have computed, and one result
 * must not mix two states of a table.
 */
final class IndexAnswer extends DecidedRows {
    private final transient Aggregates.Weighted weighted;
    private final String label;
    /** Tells answers to equal aggregations apart: the decision's id if the keys of a small side restrict the scan, else "". */
    private final String restriction;
    /** The groups that are computed; null if all groups are computed. */
    private final TopGroups top;
    private final transient First first;

    /** What the first execution has computed. All copies of a leaf share one such object. */
    private static final class First {
        private boolean executed;
        private List<InternalRow> rows; // null if Spark computes them
        private SparkPlan instead;
    }

    private IndexAnswer(
            Aggregates.Weighted weighted, LogicalPlan original, String decision, String label, String restriction, TopGroups top,
            First first) {
        super(original.output(), original, decision);
        this.weighted = weighted;
        this.label = label;
        this.restriction = restriction;
        this.top = top;
        this.first = first;
    }

    /**
     * Returns the answer to the aggregation above a scan. If Spark has to aggregate, it reads the files that were listed for the
     * question, like other scans of the query.
     */
    static IndexAnswer of(Scan scan, Decision decision) {
        LogicalPlan original = scan.isListed() ? NarrowedRelations.overListed(scan, scan.aggregate) : scan.aggregate;
        String restriction = scan.readFirst.isEmpty() ? "" : decision.id();
        Aggregates.Weighted weighted = decision.fields().has("sums")
                ? Aggregates.Weighted.ofSums(scan, decision.fields().get("sums")) : Aggregates.Weighted.of(scan);
        return new IndexAnswer(
                weighted, original, decision.id(), decision.text("label"), restriction, scan.top, new First());
    }

    @Override
    List<InternalRow> rows(SparkSession session) {
        synchronized (first) {
            if (!first.executed) first.rows = super.rows(session);
            first.executed = true;
            return first.rows;
        }
    }

    @Override
    List<InternalRow> computed(SparkSession session) throws Exception {
        return weighted.rows(session, decision);
    }

    /**
     * Returns Spark's own plan, which the first call makes: with one partition if {@code single}, so that the rows to aggregate
     * stay in the tasks.
     */
    @Override
    SparkPlan instead(SparkSession session, boolean single) {
        synchronized (first) {
            if (first.instead == null) first.instead = SideQuery.plan(session, single ? new Repartition(1, true, original) : original);
            return first.instead;
        }
    }

    @Override
    boolean isRecomputed() {
        return false;
    }

    @Override
    String name() {
        return "IndexAnswer";
    }

    @Override
    public String simpleString(int maxFields) {
        return "IndexAnswer " + label;
    }

    @Override
    protected Leaf copy() {
        return new IndexAnswer(weighted, original, decision, label, restriction, top, first);
    }

    @Override
    protected Object[] identity() {
        return new Object[] {original, label, restriction, top == null ? "" : top};
    }
}
