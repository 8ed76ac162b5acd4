package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.spark.DriverRowsExec;
import hive_bitmap.catalyst.spark.SideQuery;
import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning;
import org.apache.spark.sql.execution.SparkPlan;

/** The physical plan of {@link DecidedRows}. */
public final class DecidedRowsExec extends DriverRowsExec {
    private final transient DecidedRows leaf;

    public DecidedRowsExec(DecidedRows leaf) {
        super(leaf.output());
        this.leaf = leaf;
    }

    @Override
    protected List<InternalRow> rows() {
        return leaf.rows(session());
    }

    @Override
    protected SparkPlan instead(boolean single) {
        return leaf.instead(session(), single);
    }

    /** Executes Spark's own plan. The partitions of a scan are kept apart, because it may have many rows. */
    @Override
    protected RDD<InternalRow> executeInstead() {
        return leaf.isRecomputed() ? SideQuery.within(() -> instead(false).execute()) : super.executeInstead();
    }

    @Override
    protected boolean isRecomputed() {
        return leaf.isRecomputed();
    }

    @Override
    public Partitioning outputPartitioning() {
        return leaf.isRecomputed() ? new UnknownPartitioning(0) : super.outputPartitioning();
    }

    @Override
    protected DriverRowsExec copy() {
        return new DecidedRowsExec(leaf);
    }

    @Override
    protected Object[] identity() {
        return new Object[] {leaf};
    }

    @Override
    public String nodeName() {
        return leaf.name();
    }

    @Override
    public String simpleString(int maxFields) {
        return leaf.simpleString(maxFields);
    }
}
