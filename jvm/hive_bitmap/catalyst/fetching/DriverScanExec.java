package hive_bitmap.catalyst.fetching;

import hive_bitmap.catalyst.spark.DriverRowsExec;
import hive_bitmap.catalyst.spark.SideQuery;
import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning;
import org.apache.spark.sql.execution.SparkPlan;
import scala.collection.immutable.Seq;

/** The physical plan of {@link DriverScan}. */
public final class DriverScanExec extends DriverRowsExec {
    private final transient DriverScan scan;

    public DriverScanExec(DriverScan scan, Seq<Attribute> output) {
        super(output);
        this.scan = scan;
    }

    @Override
    protected List<InternalRow> rows() {
        return scan.rows(session());
    }

    @Override
    protected SparkPlan instead(boolean single) {
        return scan.original(session());
    }

    /** Executes Spark's own scan. Its partitions are not joined, since its rows may be many. */
    @Override
    protected RDD<InternalRow> executeInstead() {
        return SideQuery.within(() -> instead(false).execute());
    }

    @Override
    public Partitioning outputPartitioning() {
        return new UnknownPartitioning(0);
    }

    @Override
    protected boolean isComputedAnew() {
        return true;
    }

    @Override
    protected DriverRowsExec copy() {
        return new DriverScanExec(scan, output());
    }

    @Override
    protected Object[] identity() {
        return new Object[] {scan};
    }

    @Override
    public String simpleString(int maxFields) {
        return "DriverScan";
    }
}
