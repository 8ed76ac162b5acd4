package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.python.Failures;
import hive_bitmap.catalyst.spark.Leaf;
import hive_bitmap.catalyst.spark.SideQuery;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import scala.Option;

/** Replaces an aggregation: its result is computed from the index when the plan is executed. */
public final class IndexAnswer extends Leaf {
    private final transient Aggregates.Weighted weighted;
    private final LogicalPlan original;
    private final String id;
    private final String label;

    private IndexAnswer(Aggregates.Weighted weighted, LogicalPlan original, String id, String label) {
        super(original.output());
        this.weighted = weighted;
        this.original = original;
        this.id = id;
        this.label = label;
    }

    /** Returns the answer for the aggregation of a scan; under {@code id} Python keeps what it needs to count. */
    static IndexAnswer of(Scan scan, String id, String label) {
        return new IndexAnswer(Aggregates.Weighted.of(scan), scan.aggregate, id, label);
    }

    /** Computes the rows of the aggregation; Spark executes it as it is in the query if the index has no answer, or fails. */
    List<InternalRow> rows(SparkSession session) {
        List<InternalRow> answered = null;
        try {
            answered = weighted.rows(session, id);
        } catch (Exception | LinkageError e) {
            Failures.goOn(e);
        }
        return answered == null ? SideQuery.rows(session, original) : answered;
    }

    String label() {
        return label;
    }

    @Override
    public Statistics computeStats() {
        Statistics known = original.stats();
        return new Statistics(known.sizeInBytes(), Option.empty(), known.attributeStats(), false);
    }

    @Override
    public String simpleString(int maxFields) {
        return "IndexAnswer " + label;
    }

    @Override
    protected Leaf copy() {
        return new IndexAnswer(weighted, original, id, label);
    }

    @Override
    protected Object[] identity() {
        return new Object[] {original, label};
    }
}
