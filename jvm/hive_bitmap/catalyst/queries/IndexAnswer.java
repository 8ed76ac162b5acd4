package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.python.Failures;
import hive_bitmap.catalyst.spark.AnswerSize;
import hive_bitmap.catalyst.spark.InputFiles;
import hive_bitmap.catalyst.spark.Leaf;
import hive_bitmap.catalyst.spark.SideQuery;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Repartition;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import org.apache.spark.sql.execution.FileRelation;
import org.apache.spark.sql.execution.SparkPlan;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;

/** A leaf that replaces an aggregation. The result is computed from the index when the plan is first executed. */
public final class IndexAnswer extends Leaf implements FileRelation {
    private static final Logger LOG = LoggerFactory.getLogger("hive_bitmap");
    private final transient Aggregates.Weighted weighted;
    private final LogicalPlan original;
    private final String id;
    private final String label;
    /** Distinguishes answers to equal aggregations. It is the id if the keys of a small side restrict the answer, else "". */
    private final String restriction;
    private final transient FirstExecution first;

    private IndexAnswer(Aggregates.Weighted weighted, LogicalPlan original, String id, String label, String restriction,
            FirstExecution first) {
        super(original.output());
        this.weighted = weighted;
        this.original = original;
        this.id = id;
        this.label = label;
        this.restriction = restriction;
        this.first = first;
    }

    /**
     * Returns the answer to the aggregation above a scan. Python keeps what it needs to count under {@code id}. If Spark has to
     * aggregate after all, it reads the files that were listed for the question, like other scans of the query.
     */
    static IndexAnswer of(Scan scan, String id, String label) {
        LogicalPlan original = scan.isListed() ? NarrowedRelations.overListed(scan, scan.aggregate) : scan.aggregate;
        String restriction = scan.readFirst.isEmpty() ? "" : id;
        return new IndexAnswer(Aggregates.Weighted.of(scan), original, id, label, restriction, new FirstExecution());
    }

    /** Returns the rows of the aggregation. Null if the index has no answer or fails; Spark then executes {@link #original}. */
    List<InternalRow> rows(SparkSession session) {
        return first.rows(() -> computed(session));
    }

    private List<InternalRow> computed(SparkSession session) {
        try {
            return weighted.rows(session, id);
        } catch (AnswerSize.TooLarge e) {
            LOG.info("{}: Spark aggregates the table, {}", label, e.getMessage());
        } catch (Exception | LinkageError e) {
            Failures.goOn(e);
        }
        return null;
    }

    /**
     * Returns the physical plan of the query's own aggregation. The first call makes it, with one partition if {@code single}. Its
     * rows stay in the tasks, because there may be many.
     */
    SparkPlan original(SparkSession session, boolean single) {
        return first.plan(() -> SideQuery.plan(session, single ? new Repartition(1, true, original) : original));
    }

    String label() {
        return label;
    }

    @Override
    public String[] inputFiles() {
        return InputFiles.of(original);
    }

    @Override
    public Statistics computeStats() {
        Statistics statistics = original.stats();
        return new Statistics(statistics.sizeInBytes(), Option.empty(), statistics.attributeStats(), false);
    }

    @Override
    public String simpleString(int maxFields) {
        return "IndexAnswer " + label;
    }

    @Override
    protected Leaf copy() {
        return new IndexAnswer(weighted, original, id, label, restriction, first);
    }

    @Override
    protected Object[] identity() {
        return new Object[] {original, label, restriction};
    }
}
