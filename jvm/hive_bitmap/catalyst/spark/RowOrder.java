package hive_bitmap.catalyst.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Nondeterministic;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Distinct;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionOperation;
import org.apache.spark.sql.catalyst.plans.logical.Sample;
import org.apache.spark.sql.catalyst.plans.logical.SetOperation;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.WithCTE;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;

/** How the operators above a scan depend on the order of the scan's rows. */
public enum RowOrder {
    /** Not at all: they depend neither on the order nor on positions, both of which Spark itself leaves open. */
    UNSEEN,
    /** They depend on the order of the rows, but not on the partitions. */
    SEEN,
    /** They depend on the order of the rows and on the partition of each: the rows are to be cached, and other plans may sample them. */
    PARTITIONS,
    /** They depend on the position of each row in its partition. */
    POSITIONS;

    private static final TreeNodeTag<LogicalPlan> REPLACED = new TreeNodeTag<>("hive_bitmap.replaced");

    /** Returns how a query's result depends on the order of its rows. */
    public static RowOrder of(LogicalPlan query) {
        boolean hasCte = query.exists(Scala.predicate(node -> node instanceof WithCTE)); // operators that refer to a CTE are not above it
        if (hasCte && query.exists(Scala.predicate(RowOrder::dependsOnPositions))) return POSITIONS;
        return isToBeCached() ? PARTITIONS : SEEN;
    }

    /**
     * Returns whether the active session plans a relation to be cached: Spark's CacheManager clones a session with this setting for
     * it.
     */
    public static boolean isToBeCached() {
        return !SQLConf.get().autoBucketedScanEnabled();
    }

    /**
     * Undoes the replacements of scans in the subqueries of a query that depends on positions or is to be cached. Spark has
     * optimized the subqueries before. How it joins them depends on their sizes, and determines the positions of rows. Any other
     * query is returned unchanged.
     */
    public static LogicalPlan restored(LogicalPlan query) {
        if (!isToBeCached() && !query.exists(Scala.predicate(RowOrder::dependsOnPositions))) return query;
        return (LogicalPlan) query.transformDownWithSubqueries(Scala.replacing(RowOrder::replaced));
    }

    /**
     * Returns whether an answer may replace an aggregation. Groups to be cached must stay in the partitions of the tasks, unless
     * there is a single row.
     */
    public boolean allowsAnswer(Aggregate aggregate) {
        return this != PARTITIONS || Scala.list(aggregate.groupingExpressions()).isEmpty();
    }

    /** Records that a plan replaces another plan in a query. */
    public static void keep(LogicalPlan replaced, LogicalPlan by) {
        by.setTagValue(REPLACED, replaced);
    }

    /** Returns the plan that {@code by} has replaced, with the columns of {@code by}; null if it has replaced none. */
    private static LogicalPlan replaced(LogicalPlan by) {
        Option<LogicalPlan> replaced = by.getTagValue(REPLACED);
        if (replaced.isEmpty()) return null;
        List<NamedExpression> columns = new ArrayList<>();
        for (Attribute column : Scala.list(replaced.get().output())) if (by.outputSet().contains(column)) columns.add(column);
        return columns.size() == Scala.size(replaced.get().output()) ? replaced.get() : new Project(Scala.seq(columns), replaced.get());
    }

    /** Returns how a plan depends on the order of a relation below it. All operators in between must have one child. */
    public RowOrder at(LogicalPlan relation, LogicalPlan plan) {
        RowOrder seen = this;
        for (LogicalPlan node = plan; node != relation; node = Scala.list(node.children()).get(0)) seen = seen.below(node);
        return seen;
    }

    /**
     * Returns how an operator, and those above it, depend on the order of the rows below it. There are two allowlists: operators
     * that do not depend on the order, and operators that pass rows on in their order.
     */
    public RowOrder below(LogicalPlan operator) {
        if (this == POSITIONS || dependsOnPositions(operator)) return POSITIONS;
        if (operator instanceof Sort sort && !sort.global()) return this == UNSEEN ? UNSEEN : POSITIONS; // within each partition
        if (this == PARTITIONS) return belowCached(operator);
        if (hidesOrder(operator)) return UNSEEN;
        return operator instanceof Filter || operator instanceof Project || operator instanceof Union ? this : SEEN;
    }

    /**
     * Returns the same as {@link #below} for a plan to be cached. Joins are not listed, because how Spark joins depends on sizes.
     */
    private static RowOrder belowCached(LogicalPlan operator) {
        boolean keepsPartitions = operator instanceof Filter || operator instanceof Project || operator instanceof Sort
                || operator instanceof Aggregate || operator instanceof Distinct || operator instanceof RepartitionOperation;
        return keepsPartitions ? PARTITIONS : POSITIONS;
    }

    private static boolean hidesOrder(LogicalPlan operator) {
        return operator instanceof Aggregate || operator instanceof Distinct || operator instanceof Join
                || operator instanceof SetOperation
                || operator instanceof Sort
                || operator instanceof RepartitionOperation exchange && exchange.shuffle();
    }

    private static boolean dependsOnPositions(LogicalPlan operator) {
        return operator instanceof Sample || Scala.list(operator.expressions()).stream()
                .anyMatch(expression -> expression.exists(Scala.predicate(RowOrder::dependsOnPositions)));
    }

    /**
     * Returns whether an expression has a state in each partition. Functions of input files do not count, because {@link
     * Conditions#isInputFile} finds them.
     */
    private static boolean dependsOnPositions(Expression expression) {
        if (Conditions.isInputFile(expression)) return false;
        return expression instanceof Nondeterministic || expression instanceof UserDefinedExpression && !expression.deterministic();
    }
}
