package hive_bitmap.catalyst.spark;

import java.util.Arrays;
import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.SinglePartition$;
import org.apache.spark.sql.execution.LeafExecNode;
import org.apache.spark.sql.execution.SparkPlan;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/**
 * A leaf of a physical plan with few rows, which are computed in the driver when the plan is executed. If that fails, another plan
 * computes the rows.
 */
public abstract class DriverRowsExec extends SparkPlan implements LeafExecNode {
    private final Seq<Attribute> output;
    private transient volatile DriverRowsRDD executed;

    public DriverRowsExec(Seq<Attribute> output) {
        this.output = output;
    }

    /** Computes the rows; null if the plan {@link #instead} has to be executed. */
    protected abstract List<InternalRow> rows();

    /** Returns the plan that computes the rows if this leaf cannot; it should have one partition if {@code single}. */
    protected SparkPlan instead(boolean single) {
        throw new IllegalStateException("there is no other plan");
    }

    /** Returns the values that determine whether two leaves of a class are equal. */
    protected abstract Object[] identity();

    /** Returns a new leaf that is equal to this one. */
    protected abstract DriverRowsExec copy();

    @Override
    public SparkPlan clone() {
        DriverRowsExec copy = copy();
        copy.copyTagsFrom(this);
        return copy;
    }

    @SuppressWarnings("unchecked")
    private InternalRow[] unsafeRows() {
        List<InternalRow> rows = rows();
        if (rows == null) return null;
        UnsafeProjection projection = UnsafeProjection.create((Seq<Expression>) (Seq<?>) output, output);
        return rows.stream().map(row -> (InternalRow) projection.apply(row).copy()).toArray(InternalRow[]::new);
    }

    /** Executes the plan {@link #instead}, in one partition. */
    protected RDD<InternalRow> executeInstead() {
        RDD<InternalRow> rows = SideQuery.within(() -> instead(true).execute());
        return rows.getNumPartitions() == 1 ? rows : rows.coalesce(1, false, Option.empty(), null);
    }

    /** Clones this leaf. The arguments are ignored, because no rule changes anything in it. */
    @Override
    public SparkPlan makeCopy(Object[] arguments) {
        return clone();
    }

    @Override
    public RDD<InternalRow> doExecute() {
        InternalRow[] all = unsafeRows();
        if (all == null) return executeInstead();
        executed = new DriverRowsRDD(sparkContext(), all);
        return executed;
    }

    /**
     * Computes the rows again before another execution. Spark calls this method before each execution of a plan. It keeps the RDD
     * of the first execution, but files may have changed since. Completed stages of an adaptive plan keep their rows, as with
     * Spark's own scans. An error is raised by the tasks that need the rows; if Spark reuses what earlier tasks have written, no
     * task runs and nothing is raised.
     */
    @Override
    public void resetMetrics() {
        super.resetMetrics();
        if (executed == null || !isRecomputed()) return;
        InternalRow[] all = unsafeRows();
        if (all != null) {
            executed.rows(all);
            return;
        }
        try {
            executed.rows(SideQuery.within(() -> instead(false).executeCollect()));
        } catch (Exception e) { // Spark's own checked errors are not declared
            if (Thread.currentThread().isInterrupted()) throw e;
            executed.fail(e);
        }
    }

    /** Returns whether each execution of a plan computes the rows again; otherwise the rows of the first execution are used. */
    protected boolean isRecomputed() {
        return false;
    }

    @Override
    public InternalRow[] executeCollect() {
        InternalRow[] all = unsafeRows();
        return all == null ? SideQuery.within(() -> instead(false).executeCollect()) : all;
    }

    @Override
    public InternalRow[] executeTake(int limit) {
        InternalRow[] all = unsafeRows();
        if (all == null) return SideQuery.within(() -> instead(false).executeTake(limit));
        return Arrays.copyOf(all, Math.min(limit, all.length));
    }

    @Override
    public InternalRow[] executeTail(int limit) {
        InternalRow[] all = unsafeRows();
        if (all == null) return SideQuery.within(() -> instead(false).executeTail(limit));
        return Arrays.copyOfRange(all, Math.max(0, all.length - limit), all.length);
    }

    @Override
    public Partitioning outputPartitioning() {
        return SinglePartition$.MODULE$;
    }

    @Override
    public Seq<Attribute> output() {
        return output;
    }

    @Override
    public AttributeSet producedAttributes() {
        return outputSet();
    }

    @Override
    public Seq<SparkPlan> children() {
        return Scala.seq(List.of());
    }

    @Override
    public SparkPlan mapChildren(Function1<SparkPlan, SparkPlan> change) {
        return this;
    }

    @Override
    public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
        return this;
    }

    /** Returns the fields of this node in a plan as JSON. Spark itself finds fields only in case classes. */
    @Override
    public scala.collection.immutable.List<scala.Tuple2<String, org.json4s.JValue>> jsonFields() {
        return Leaf.jsonFieldsOf(output);
    }

    @Override
    public int productArity() {
        return identity().length;
    }

    @Override
    public Object productElement(int at) {
        return identity()[at];
    }

    @Override
    public boolean canEqual(Object other) {
        return other != null && other.getClass() == getClass();
    }

    @Override
    public boolean equals(Object other) {
        return this == other
                || canEqual(other) && Arrays.equals(identity(), ((DriverRowsExec) other).identity())
                        && output.equals(((DriverRowsExec) other).output);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(identity());
    }
}
