package hive_bitmap.catalyst.reading;

import hive_bitmap.catalyst.spark.RowOrder;
import hive_bitmap.catalyst.spark.Scala;
import hive_bitmap.catalyst.spark.SideQuery;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.FileScanRDD;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.Function1;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/**
 * Passes on the rows of a narrowed scan, and shows in Spark's UI how many blocks and files it reads. If Spark would no longer read
 * the files that the child was planned for, another plan is executed.
 */
public final class NarrowedScanExec extends SparkPlan {
    private final SparkPlan child;
    private final Narrowing narrowing;
    private final boolean keepsPartitions;
    private transient Supplier<SparkPlan> instead;
    private final transient Map<String, SQLMetric> metrics = new LinkedHashMap<>();
    private transient volatile boolean isReading;

    public NarrowedScanExec(SparkPlan child, Narrowing narrowing) {
        this(child, narrowing, RowOrder.isToBeCached());
    }

    private NarrowedScanExec(SparkPlan child, Narrowing narrowing, boolean keepsPartitions) {
        this.child = child;
        this.narrowing = narrowing;
        this.keepsPartitions = keepsPartitions;
        for (String name : List.of("blocks read", "blocks of all", "files read", "files of all")) {
            metrics.put(name.replace(' ', '_'), SQLMetrics.createMetric(sparkContext(), name));
        }
    }

    /**
     * Returns a scan with an alternative plan. When the scan is executed, it calls {@code instead}, and executes the returned plan,
     * or {@code child} if that is null.
     */
    public static NarrowedScanExec unless(Supplier<SparkPlan> instead, SparkPlan child, Narrowing narrowing) {
        NarrowedScanExec scan = new NarrowedScanExec(child, narrowing);
        scan.instead = instead;
        return scan;
    }

    /**
     * Sets the metrics and sends them to Spark's UI. Spark resets the metrics before each execution, and its UI adds up what it
     * receives.
     */
    private void postMetrics() {
        isReading = true;
        metrics.get("blocks_read").set(narrowing.blocks());
        metrics.get("blocks_of_all").set(narrowing.blocksOfAll());
        metrics.get("files_read").set(narrowing.files());
        metrics.get("files_of_all").set(narrowing.filesOfAll());
        String execution = sparkContext().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
        SQLMetrics.postDriverMetricUpdates(sparkContext(), execution, Scala.seq(new ArrayList<>(metrics.values())));
    }

    @Override
    public scala.collection.immutable.Map<String, SQLMetric> metrics() {
        return Scala.map(metrics);
    }

    /**
     * Resets the metrics before an execution. After an earlier execution, they are set again at once, because Spark keeps the RDD
     * of the first execution and does not call {@code doExecute} again.
     */
    @Override
    public void resetMetrics() {
        super.resetMetrics();
        if (isReading) postMetrics();
    }

    @Override
    public RDD<InternalRow> doExecute() {
        SparkPlan other = instead == null ? null : instead.get();
        if (other != null) return SideQuery.within(other::execute);
        postMetrics();
        return joined(child.execute());
    }

    @Override
    public RDD<ColumnarBatch> doExecuteColumnar() {
        postMetrics();
        return joined(child.executeColumnar());
    }

    /**
     * Joins the partitions of a file scan of which little is read. Partitions of buckets are kept, because joins of tables rely on
     * them, and so are partitions of a relation to be cached, because samples of the relation rely on them.
     */
    private <T> RDD<T> joined(RDD<T> rows) {
        if (keepsPartitions || !(child instanceof FileSourceScanExec scan) || scan.bucketedScan()) return rows;
        return scan.inputRDD() instanceof FileScanRDD files ? Splits.joined(rows, Scala.list(files.filePartitions())) : rows;
    }

    @Override
    public boolean supportsColumnar() {
        return instead == null && child.supportsColumnar();
    }

    @Override
    public scala.Option<Seq<String>> vectorTypes() {
        return child.vectorTypes();
    }

    @Override
    public Seq<Attribute> output() {
        return child.output();
    }

    @Override
    public Partitioning outputPartitioning() {
        return instead == null ? child.outputPartitioning() : new UnknownPartitioning(0);
    }

    @Override
    public Seq<SortOrder> outputOrdering() {
        return instead == null ? child.outputOrdering() : Scala.seq(List.of());
    }

    @Override
    public Seq<SparkPlan> children() {
        return Scala.seq(List.of(child));
    }

    @Override
    public SparkPlan mapChildren(Function1<SparkPlan, SparkPlan> change) {
        SparkPlan changed = change.apply(child);
        return changed == child ? this : copy(changed);
    }

    @Override
    public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
        return copy(Scala.list(children).get(0));
    }

    /** Copies this node with another child. */
    private NarrowedScanExec copy(SparkPlan changed) {
        NarrowedScanExec copy = new NarrowedScanExec(changed, narrowing, keepsPartitions);
        copy.instead = instead;
        copy.copyTagsFrom(this);
        return copy;
    }

    @Override
    public SparkPlan clone() {
        return copy((SparkPlan) child.clone());
    }

    @Override
    public SparkPlan makeCopy(Object[] arguments) {
        return copy(child);
    }

    @Override
    public String simpleString(int maxFields) {
        return "NarrowedScan " + narrowing.label();
    }

    @Override
    public int productArity() {
        return 2;
    }

    @Override
    public Object productElement(int at) {
        return at == 0 ? child : narrowing;
    }

    @Override
    public boolean canEqual(Object other) {
        return other instanceof NarrowedScanExec;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof NarrowedScanExec scan && child.equals(scan.child) && narrowing.equals(scan.narrowing);
    }

    @Override
    public int hashCode() {
        return Arrays.asList(child, narrowing).hashCode();
    }
}
