package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.lake.IcebergTables;
import hive_bitmap.catalyst.spark.Conditions;
import hive_bitmap.catalyst.spark.Scala;
import hive_bitmap.catalyst.spark.SideQuery;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Exists;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.InSubquery;
import org.apache.spark.sql.catalyst.expressions.ListQuery;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.plans.Cross$;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.LeftOuter$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.RightOuter$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.CollectMetrics;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;

/**
 * Adds runtime filters (semi-join reduction). The small filtered side of an equi-join is executed first, and its keys become a
 * condition on the scan of the other side. The rows that were read replace the small side in the plan, so the filter has exactly
 * the keys that are joined, even if the tables of the small side change in the meantime.
 */
public final class Joins {
    static final int MAX_ROWS = 10_000;
    static final long MAX_BYTES = 32L << 20;
    private static final int MIN_SIZE_RATIO = 10;

    private Joins() {}

    /** Adds the possible runtime filters to the scans. A scan must be much larger than the small side. */
    public static void addRuntimeFilters(LogicalPlan plan, List<Scan> scans) {
        if (plan instanceof Join join && join.condition().isDefined()) {
            for (Expression conjunct : Conditions.conjuncts(join.condition().get())) {
                if (!(conjunct instanceof EqualTo equal)) continue;
                if (!(equal.left() instanceof Attribute left) || !(equal.right() instanceof Attribute right)) continue;
                boolean swapped = !join.left().outputSet().contains(left);
                Attribute ofLeft = swapped ? right : left;
                Attribute ofRight = swapped ? left : right;
                if (!join.left().outputSet().contains(ofLeft) || !join.right().outputSet().contains(ofRight)) continue;
                if (reducesLeft(join.joinType())) add(join.left(), ofLeft, join.right(), ofRight, scans);
                if (reducesRight(join.joinType())) add(join.right(), ofRight, join.left(), ofLeft, scans);
            }
        }
        if (plan instanceof Filter filter) {
            for (Expression conjunct : Conditions.conjuncts(filter.condition())) subquery(filter.child(), conjunct, scans);
        }
        for (LogicalPlan child : Scala.list(plan.children())) addRuntimeFilters(child, scans);
    }

    /** Adds the runtime filters of an IN or EXISTS subquery, which Spark has not yet rewritten to a join. */
    private static void subquery(LogicalPlan child, Expression condition, List<Scan> scans) {
        if (condition instanceof InSubquery in && Scala.list(in.values()).size() == 1 && in.query() instanceof ListQuery query) {
            if (Scala.list(in.values()).get(0) instanceof Attribute tested && Scala.list(query.outerAttrs()).isEmpty()
                    && Scala.list(query.joinCond()).isEmpty()) {
                add(child, tested, query.plan(), Scala.list(query.plan().output()).get(0), scans);
            }
        } else if (condition instanceof Exists exists) {
            for (Expression conjunct : Scala.list(exists.joinCond())) {
                if (!(conjunct instanceof EqualTo equal)) continue;
                if (!(equal.left() instanceof Attribute left) || !(equal.right() instanceof Attribute right)) continue;
                boolean swapped = !exists.plan().outputSet().contains(right);
                Attribute inner = swapped ? left : right;
                if (exists.plan().outputSet().contains(inner)) {
                    add(child, swapped ? right : left, exists.plan(), inner, scans);
                }
            }
        }
    }

    /** Returns whether left rows without a match are irrelevant for the result of a join. */
    private static boolean reducesLeft(JoinType type) {
        return type == Inner$.MODULE$ || type == Cross$.MODULE$ || type == LeftSemi$.MODULE$ || type == RightOuter$.MODULE$;
    }

    /** Returns whether right rows without a match are irrelevant for the result of a join. */
    private static boolean reducesRight(JoinType type) {
        return type == Inner$.MODULE$ || type == Cross$.MODULE$ || type == LeftSemi$.MODULE$ || type == LeftAnti$.MODULE$
                || type == LeftOuter$.MODULE$;
    }

    private static void add(
            LogicalPlan large, Attribute column, LogicalPlan small, Attribute key, List<Scan> scans) {
        if (!isKey(column.dataType()) || !column.dataType().equals(key.dataType())) return;
        if (!isFiltered(small) || !canBeExecutedAlone(small)) return;
        Source source = source(large, column);
        if (source == null || overlaps(small, source.relation(), scans)) return;
        long size = size(small);
        for (Scan scan : scans) {
            if (scan.relation == source.relation() && size <= MAX_BYTES && MIN_SIZE_RATIO * size <= bytes(scan)) {
                scan.runtimeFilters.add(new Scan.RuntimeFilter(source.column(), small, key, size));
            }
        }
    }

    /** Returns the bytes of a scan's files; 0 if they are unknown. */
    private static long bytes(Scan scan) {
        if (scan.files() != null) return scan.files().location().sizeInBytes();
        return IcebergTables.isTable(scan.relation) ? scan.bytes() : 0;
    }

    /**
     * Returns whether a new runtime filter conflicts with an existing one: one of them would execute a plan that the other replaces
     * or narrows.
     */
    private static boolean overlaps(LogicalPlan small, LogicalPlan large, List<Scan> scans) {
        for (Scan scan : scans) {
            for (Scan.RuntimeFilter other : scan.runtimeFilters) {
                if (contains(small, scan.relation) || contains(other.small(), large)) return true;
                if (other.small() != small && (contains(small, other.small()) || contains(other.small(), small))) return true;
            }
        }
        return false;
    }

    private static boolean contains(LogicalPlan plan, LogicalPlan part) {
        return plan.exists(Scala.predicate(node -> node == part));
    }

    /** Returns whether values of a type that are equal in Spark are always the same key of an index. */
    private static boolean isKey(DataType type) {
        return !(type instanceof FloatType || type instanceof DoubleType || type instanceof BinaryType);
    }

    private static boolean isFiltered(LogicalPlan plan) {
        return plan.exists(Scala.predicate(node ->
                node instanceof Filter filter && Conditions.conjuncts(filter.condition()).stream().anyMatch(Joins::selects)));
    }

    /**
     * Returns whether a conjunct is more than IS NOT NULL. Spark adds IS NOT NULL for join keys, so it does not show that a query
     * selects rows.
     */
    static boolean selects(Expression conjunct) {
        return !(conjunct instanceof org.apache.spark.sql.catalyst.expressions.IsNotNull);
    }

    /** Returns whether a plan can be executed outside of its query with the same result. */
    private static boolean canBeExecutedAlone(LogicalPlan plan) {
        return !plan.isStreaming() && plan.resolved() && !plan.exists(Scala.predicate(Joins::dependsOnQuery)) && !isObserved(plan);
    }

    /** Returns whether {@code Dataset.observe} collects metrics in a plan or in a subquery of it. */
    private static boolean isObserved(LogicalPlan plan) {
        return !Scala.list(plan.collectWithSubqueries(
                Scala.<LogicalPlan>replacing(node -> node instanceof CollectMetrics ? node : null))).isEmpty();
    }

    /** Returns whether a node refers to an outer query or a CTE, or is not deterministic. */
    private static boolean dependsOnQuery(LogicalPlan plan) {
        for (Expression expression : Scala.list(plan.expressions())) {
            if (expression.exists(Scala.predicate(node ->
                    node instanceof org.apache.spark.sql.catalyst.expressions.OuterReference || !node.deterministic()))) {
                return true;
            }
        }
        return plan instanceof org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
    }

    /** Returns the bytes of a plan's leaves by Spark's statistics, capped so that the sum does not overflow. */
    private static long size(LogicalPlan plan) {
        long sum = 0;
        for (LogicalPlan leaf : Scala.list(plan.collectLeaves())) {
            scala.math.BigInt size = leaf.stats().sizeInBytes();
            sum += size.isValidLong() ? Math.min(size.toLong(), Long.MAX_VALUE / 1024) : Long.MAX_VALUE / 1024;
        }
        return sum;
    }

    /** The relation and its column that a column of a plan comes from unchanged. */
    record Source(LogicalPlan relation, Attribute column) {}

    /**
     * Returns the relation and column that a column of a plan comes from. Null if the column is computed, or if filtering the
     * relation by the column would give another result than filtering the plan by it.
     */
    static Source source(LogicalPlan plan, Attribute column) {
        if (Scan.isIndexable(plan)) return plan.outputSet().contains(column) ? new Source(plan, column) : null;
        if (!Scala.list(plan.expressions()).stream().allMatch(Expression::deterministic)) return null; // it may number the rows
        if (plan instanceof Filter filter) return source(filter.child(), column);
        if (plan instanceof Project project) {
            Attribute below = below(Scala.list(project.projectList()), column);
            return below == null ? null : source(project.child(), below);
        }
        if (plan instanceof Aggregate aggregate) {
            Attribute below = below(Scala.list(aggregate.aggregateExpressions()), column);
            boolean grouped = below != null && Scala.list(aggregate.groupingExpressions()).stream()
                    .anyMatch(expression -> expression instanceof Attribute group && group.exprId().equals(below.exprId()));
            return grouped ? source(aggregate.child(), below) : null;
        }
        if (plan instanceof Join join) {
            boolean isLeft = join.left().outputSet().contains(column);
            JoinType type = join.joinType();
            if (isLeft && (type == LeftOuter$.MODULE$ || type == LeftAnti$.MODULE$ || reducesLeft(type) && type != RightOuter$.MODULE$)) {
                return source(join.left(), column);
            }
            if (!isLeft && (type == RightOuter$.MODULE$ || type == Inner$.MODULE$ || type == Cross$.MODULE$)) {
                return source(join.right(), column);
            }
        }
        return null;
    }

    /** Returns the attribute that a projection passes on as {@code column}; null if the column is computed. */
    private static Attribute below(List<NamedExpression> list, Attribute column) {
        for (NamedExpression expression : list) {
            if (!expression.exprId().equals(column.exprId())) continue;
            if (expression instanceof Attribute attribute) return attribute;
            return expression instanceof Alias alias && alias.child() instanceof Attribute attribute ? attribute : null;
        }
        return null;
    }

    /**
     * Executes the small side of a join and returns its rows; null if there are more than MAX_ROWS, or they take more than
     * MAX_BYTES.
     */
    static List<InternalRow> read(SparkSession session, LogicalPlan small) {
        Expression limit = new Literal(MAX_ROWS + 1, org.apache.spark.sql.types.DataTypes.IntegerType);
        LogicalPlan limited = new GlobalLimit(limit, new LocalLimit(limit, small));
        List<InternalRow> rows = SideQuery.rows(session, limited);
        long bytes = 0;
        for (InternalRow row : rows) bytes += row instanceof UnsafeRow unsafe ? unsafe.getSizeInBytes() : 0;
        return rows.size() > MAX_ROWS || bytes > MAX_BYTES ? null : rows;
    }

    /** Returns the condition that the filter's column has one of the keys in {@code rows}; NULL is not a key. */
    static Expression condition(Scan.RuntimeFilter filter, List<InternalRow> rows) {
        int position = 0;
        for (Attribute column : Scala.list(filter.small().output())) {
            if (column.exprId().equals(filter.key().exprId())) break;
            position++;
        }
        Set<Object> keys = new HashSet<>();
        for (InternalRow row : rows) {
            if (!row.isNullAt(position)) keys.add(copied(row.get(position, filter.key().dataType())));
        }
        return new InSet(filter.column(), Scala.set(keys));
    }

    private static Object copied(Object value) {
        return value instanceof org.apache.spark.unsafe.types.UTF8String text ? text.copy() : value;
    }
}
