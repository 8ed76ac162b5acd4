package hive_bitmap.catalyst.fetching;

import hive_bitmap.catalyst.python.Failures;
import hive_bitmap.catalyst.spark.Leaf;
import hive_bitmap.catalyst.spark.Scala;
import hive_bitmap.catalyst.spark.SideQuery;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.types.DataType;
import scala.collection.immutable.Seq;

/** A scan with few selected rows. Python reads them when the plan is executed; if it cannot, Spark reads them. */
public final class DriverScan extends Leaf {
    private final LogicalPlan original;
    private final String fetch;

    private DriverScan(Seq<Attribute> output, LogicalPlan original, String fetch) {
        super(output);
        this.original = original;
        this.fetch = fetch;
    }

    /**
     * {@code original} has the columns of the scan and at least its rows. {@code fetch} is the id under which Python keeps what it
     * has to read.
     */
    public static DriverScan of(LogicalPlan original, String fetch) {
        List<Attribute> output = new ArrayList<>();
        for (Attribute column : Scala.list(original.output())) output.add((Attribute) column.newInstance().withNullability(true));
        return new DriverScan(Scala.seq(output), original, fetch);
    }

    /** Returns the rows; null if Spark has to read them. */
    List<InternalRow> rows(SparkSession session) {
        List<DataType> types = Scala.list(output()).stream().map(Attribute::dataType).toList();
        try {
            return new Fetching(session, fetch).ask(types);
        } catch (Exception | LinkageError e) {
            Failures.goOn(e);
            return null;
        }
    }

    /** Returns Spark's own physical plan for the rows. */
    SparkPlan original(SparkSession session) {
        return SideQuery.plan(session, original);
    }

    @Override
    public Statistics computeStats() {
        return original.stats();
    }

    @Override
    protected Leaf copy() {
        return new DriverScan(output(), original, fetch);
    }

    @Override
    protected Object[] identity() {
        return new Object[] {original, fetch};
    }
}
