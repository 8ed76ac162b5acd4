package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.spark.Leaf;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import scala.Option;

/** In place of an aggregation: its result, which the index alone gives when the plan is executed. */
public final class IndexAnswer extends Leaf {
    private final transient Aggregates.Weighted weighted;
    private final LogicalPlan original;
    private final String number;
    private final String label;

    IndexAnswer(Aggregates.Weighted weighted, LogicalPlan original, String number, String label) {
        super(original.output());
        this.weighted = weighted;
        this.original = original;
        this.number = number;
        this.label = label;
    }

    Aggregates.Weighted weighted() {
        return weighted;
    }

    /** The aggregation as Spark would do it by itself. */
    LogicalPlan original() {
        return original;
    }

    /** By which Python knows what is asked. */
    String number() {
        return number;
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
        return new IndexAnswer(weighted, original, number, label);
    }

    @Override
    protected Object[] identity() {
        return new Object[] {original, label};
    }
}
