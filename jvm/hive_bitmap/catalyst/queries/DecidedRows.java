package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.python.Failures;
import hive_bitmap.catalyst.spark.AnswerSize;
import hive_bitmap.catalyst.spark.InputFiles;
import hive_bitmap.catalyst.spark.Leaf;
import hive_bitmap.catalyst.spark.SideQuery;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import org.apache.spark.sql.execution.FileRelation;
import org.apache.spark.sql.execution.SparkPlan;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * A leaf whose rows Python computes by a {@link Decision} when the plan is executed. If Python cannot compute them, Spark
 * executes the part of the query that the leaf replaces.
 */
public abstract class DecidedRows extends Leaf implements FileRelation {
    private static final Logger LOG = LoggerFactory.getLogger("hive_bitmap");
    /** The part of the query that the leaf replaces, over the files that were listed to plan it. */
    protected final LogicalPlan original;
    /** The id of the decision in Python. */
    protected final String decision;

    DecidedRows(Seq<Attribute> output, LogicalPlan original, String decision) {
        super(output);
        this.original = original;
        this.decision = decision;
    }

    /** Has Python compute the rows; null if Spark has to compute them. */
    abstract List<InternalRow> computed(SparkSession session) throws Exception;

    /**
     * Returns whether each execution of the plan computes the rows again. Otherwise later executions return the rows of the first.
     */
    abstract boolean isRecomputed();

    /** Returns the name of the leaf in plans. */
    abstract String name();

    /** Returns the rows; null if Spark has to compute them by {@link #instead}. */
    List<InternalRow> rows(SparkSession session) {
        try {
            return computed(session);
        } catch (AnswerSize.TooLarge e) {
            LOG.info("{}: Spark computes it, {}", simpleString(0), e.getMessage());
        } catch (Exception | LinkageError e) {
            Failures.goOn(e);
        }
        return null;
    }

    /** Returns Spark's own physical plan for the rows; with one partition if {@code single}, where a subclass supports it. */
    SparkPlan instead(SparkSession session, boolean single) {
        return SideQuery.plan(session, original);
    }

    @Override
    public String nodeName() {
        return name();
    }

    @Override
    public String simpleString(int maxFields) {
        return name();
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
}
