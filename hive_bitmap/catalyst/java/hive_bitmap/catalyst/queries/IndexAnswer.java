package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.spark.Leaf;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import scala.Option;

/** Replaces an aggregation: its result is computed from the index when the plan is executed. */
public final class IndexAnswer extends Leaf {
    private final transient Aggregates.Weighted weighted;
    private final LogicalPlan original;
    private final String id;
    private final String label;

    IndexAnswer(Aggregates.Weighted weighted, LogicalPlan original, String id, String label) {
        super(original.output());
        this.weighted = weighted;
        this.original = original;
        this.id = id;
        this.label = label;
    }

    Aggregates.Weighted weighted() {
        return weighted;
    }

    /** Returns the aggregation that is replaced. */
    LogicalPlan original() {
        return original;
    }

    /** Returns the id under which Python keeps what it needs to count. */
    String id() {
        return id;
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
