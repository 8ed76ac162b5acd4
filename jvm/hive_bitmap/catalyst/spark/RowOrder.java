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

/** What the operators above a scan see of where its rows stand. */
public enum RowOrder {
    /** Neither order nor places: Spark itself leaves them open. */
    UNSEEN,
    /** The order of the rows, but not how they are parted. */
    SEEN,
    /** The order of the rows, and in which partition each stands: the rows are kept, and other plans may sample them. */
    PARTITIONS,
    /** Which rows stand where in which partition. */
    PLACES;

    private static final TreeNodeTag<LogicalPlan> REPLACED = new TreeNodeTag<>("hive_bitmap.replaced");

    /** Returns what is seen of the rows of a query. */
    public static RowOrder of(LogicalPlan query) {
        boolean apart = query.exists(Scala.predicate(node -> node instanceof WithCTE)); // what refers to a CTE does not stand above it
        if (apart && query.exists(Scala.predicate(RowOrder::dependsOnPlaces))) return PLACES;
        return isToBeCached() ? PARTITIONS : SEEN;
    }

    /** Whether the active session plans what it caches. Spark's CacheManager clones a session with this setting for that. */
    public static boolean isToBeCached() {
        return !SQLConf.get().autoBucketedScanEnabled();
    }

    /**
     * Returns a query without what has replaced scans in its subqueries, if it depends on places, or is cached: Spark optimizes
     * subqueries first, and how it joins them, by their sizes, decides where rows stand.
     */
    public static LogicalPlan restored(LogicalPlan query) {
        if (!isToBeCached() && !query.exists(Scala.predicate(RowOrder::dependsOnPlaces))) return query;
        return (LogicalPlan) query.transformDownWithSubqueries(Scala.replacing(RowOrder::replaced));
    }

    /** Whether an answer may replace an aggregation. Groups of what is cached stay in the partitions of its tasks; a single row has none. */
    public boolean allowsAnswer(Aggregate aggregate) {
        return this != PARTITIONS || Scala.list(aggregate.groupingExpressions()).isEmpty();
    }

    /** Keeps which plan another one replaces in a query. */
    public static void keep(LogicalPlan replaced, LogicalPlan by) {
        by.setTagValue(REPLACED, replaced);
    }

    /** Returns the plan that another one has replaced, with the columns of that one; null if it has replaced none. */
    private static LogicalPlan replaced(LogicalPlan by) {
        Option<LogicalPlan> known = by.getTagValue(REPLACED);
        if (known.isEmpty()) return null;
        List<NamedExpression> columns = new ArrayList<>();
        for (Attribute column : Scala.list(known.get().output())) if (by.outputSet().contains(column)) columns.add(column);
        return columns.size() == Scala.size(known.get().output()) ? known.get() : new Project(Scala.seq(columns), known.get());
    }

    /** Returns what is seen of a relation below a plan, with nothing but operators of one child in between. */
    public RowOrder at(LogicalPlan relation, LogicalPlan plan) {
        RowOrder seen = this;
        for (LogicalPlan node = plan; node != relation; node = Scala.list(node.children()).get(0)) seen = seen.below(node);
        return seen;
    }

    /** Returns what is seen below an operator. Which operators see no order, and which pass rows on, is an allowlist. */
    public RowOrder below(LogicalPlan operator) {
        if (this == PLACES || dependsOnPlaces(operator)) return PLACES;
        if (operator instanceof Sort sort && !sort.global()) return this == UNSEEN ? UNSEEN : PLACES; // within each partition
        if (this == PARTITIONS) return belowKept(operator);
        if (hidesOrder(operator)) return UNSEEN;
        return operator instanceof Filter || operator instanceof Project || operator instanceof Union ? this : SEEN;
    }

    /** Returns what is seen below an operator of a plan that is cached. How Spark joins depends on sizes, so joins are not listed. */
    private static RowOrder belowKept(LogicalPlan operator) {
        boolean passes = operator instanceof Filter || operator instanceof Project || operator instanceof Sort
                || operator instanceof Aggregate || operator instanceof Distinct || operator instanceof RepartitionOperation;
        return passes ? PARTITIONS : PLACES;
    }

    private static boolean hidesOrder(LogicalPlan operator) {
        return operator instanceof Aggregate || operator instanceof Distinct || operator instanceof Join
                || operator instanceof SetOperation
                || operator instanceof Sort
                || operator instanceof RepartitionOperation exchange && exchange.shuffle();
    }

    private static boolean dependsOnPlaces(LogicalPlan operator) {
        return operator instanceof Sample || Scala.list(operator.expressions()).stream()
                .anyMatch(one -> one.exists(Scala.predicate(RowOrder::dependsOnPlaces)));
    }

    /** Whether an expression has a state in each partition. Functions of files have a reason of their own. */
    private static boolean dependsOnPlaces(Expression expression) {
        if (Conditions.isInputFile(expression)) return false;
        return expression instanceof Nondeterministic || expression instanceof UserDefinedExpression && !expression.deterministic();
    }
}
