package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.spark.ArrowRows;
import hive_bitmap.catalyst.spark.Leaf;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import org.apache.spark.sql.types.DataType;
import scala.collection.immutable.Seq;

/** A scan, or a part of one, with few selected rows, which Python reads without a Spark job. */
final class DriverScan extends DecidedRows {
    private final int part;

    private DriverScan(Seq<Attribute> output, LogicalPlan original, String decision, int part) {
        super(output, original, decision);
        this.part = part;
    }

    /**
     * Returns the leaf for a part of a decision, given by its number. {@code original} is Spark's own plan for it: a plan with the
     * columns of the scan and at least the rows that the query needs.
     */
    static DriverScan of(LogicalPlan original, String decision, int part) {
        List<Attribute> output = new ArrayList<>();
        for (Attribute column : Scala.list(original.output())) output.add((Attribute) column.newInstance().withNullability(true));
        return new DriverScan(Scala.seq(output), original, decision, part);
    }

    @Override
    List<InternalRow> computed(SparkSession session) {
        Execution reading = Execution.reading(session, decision, part);
        if (reading.carriedOut(false) == null) return null;
        ArrowRows rows = reading.sent.get(0); // Python sends at least one batch
        List<DataType> types = Scala.list(output()).stream().map(Attribute::dataType).toList();
        if (!areAlike(rows.types(), types)) throw new IllegalStateException("Python's rows are " + rows.types() + ", not " + types);
        return new ArrayList<>(rows.rows);
    }

    /** Returns whether types differ at most in nullability and in the metadata of fields, such as comments. */
    private static boolean areAlike(List<DataType> some, List<DataType> others) {
        if (some.size() != others.size()) return false;
        for (int i = 0; i < some.size(); i++) {
            if (!DataType.equalsIgnoreNullability(some.get(i), others.get(i))) return false;
        }
        return true;
    }

    /** Returns true, as for Spark's own scans: files may have changed since the last execution. */
    @Override
    boolean isRecomputed() {
        return true;
    }

    @Override
    String name() {
        return "DriverScan";
    }

    @Override
    public Statistics computeStats() {
        return original.stats();
    }

    @Override
    protected Leaf copy() {
        return new DriverScan(output(), original, decision, part);
    }

    @Override
    protected Object[] identity() {
        return new Object[] {original, decision, part};
    }
}
