package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.spark.Conditions;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
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
import org.apache.spark.sql.catalyst.plans.Cross$;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.LeftOuter$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.RightOuter$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
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
 * Semi-join reduction: where a small filtered side of an equi-join is read first, its keys are a condition on the scan of
 * the other side. The rows that were read take the place of the small side, so that the keys are those of what is joined
 * whatever happens to its tables afterwards.
 */
public final class Joins {
    static final int MOST_ROWS = 10_000;
    static final long MOST_BYTES = 32L << 20;
    private static final int TIMES = 10;

    private Joins() {}

    /** A column of a scan that equals, in every row that matters, a column of a plan that can be read first. */
    public record Link(Scan scan, Attribute column, LogicalPlan small, Attribute key) {}

    /** The links of a plan to those of the scans that are worth it. */
    public static List<Link> links(LogicalPlan plan, List<Scan> scans) {
        List<Link> found = new ArrayList<>();
        collect(plan, scans, found);
        return found;
    }

    private static void collect(LogicalPlan plan, List<Scan> scans, List<Link> found) {
        if (plan instanceof Join join && join.condition().isDefined()) {
            for (Expression one : Conditions.conjuncts(join.condition().get())) {
                if (!(one instanceof EqualTo equal)) continue;
                if (!(equal.left() instanceof Attribute left) || !(equal.right() instanceof Attribute right)) continue;
                boolean straight = join.left().outputSet().contains(left);
                Attribute ofLeft = straight ? left : right;
                Attribute ofRight = straight ? right : left;
                if (!join.left().outputSet().contains(ofLeft) || !join.right().outputSet().contains(ofRight)) continue;
                if (reducesLeft(join.joinType())) add(join.left(), ofLeft, join.right(), ofRight, scans, found);
                if (reducesRight(join.joinType())) add(join.right(), ofRight, join.left(), ofLeft, scans, found);
            }
        }
        if (plan instanceof Filter filter) {
            for (Expression one : Conditions.conjuncts(filter.condition())) subquery(filter.child(), one, scans, found);
        }
        for (LogicalPlan child : Scala.list(plan.children())) collect(child, scans, found);
    }

    /** IN and EXISTS, which become joins only later. */
    private static void subquery(LogicalPlan child, Expression condition, List<Scan> scans, List<Link> found) {
        if (condition instanceof InSubquery in && Scala.list(in.values()).size() == 1 && in.query() instanceof ListQuery query) {
            if (Scala.list(in.values()).get(0) instanceof Attribute tested && Scala.list(query.outerAttrs()).isEmpty()
                    && Scala.list(query.joinCond()).isEmpty()) {
                add(child, tested, query.plan(), Scala.list(query.plan().output()).get(0), scans, found);
            }
        } else if (condition instanceof Exists exists) {
            for (Expression one : Scala.list(exists.joinCond())) {
                if (!(one instanceof EqualTo equal)) continue;
                if (!(equal.left() instanceof Attribute left) || !(equal.right() instanceof Attribute right)) continue;
                boolean straight = exists.plan().outputSet().contains(right);
                Attribute inside = straight ? right : left;
                if (exists.plan().outputSet().contains(inside)) {
                    add(child, straight ? left : right, exists.plan(), inside, scans, found);
                }
            }
        }
    }

    private static boolean reducesLeft(JoinType type) {
        return type == Inner$.MODULE$ || type == Cross$.MODULE$ || type == LeftSemi$.MODULE$ || type == RightOuter$.MODULE$;
    }

    private static boolean reducesRight(JoinType type) {
        return type == Inner$.MODULE$ || type == Cross$.MODULE$ || type == LeftSemi$.MODULE$ || type == LeftAnti$.MODULE$
                || type == LeftOuter$.MODULE$;
    }

    private static void add(
            LogicalPlan large, Attribute column, LogicalPlan small, Attribute key, List<Scan> scans, List<Link> found) {
        if (!isKey(column.dataType()) || !column.dataType().equals(key.dataType())) return;
        if (!isFiltered(small) || !isStable(small)) return;
        Source source = source(large, column);
        if (source == null || overlaps(small, source.relation(), found)) return;
        for (Scan scan : scans) {
            if (scan.relation == source.relation() && scan.files() != null
                    && size(small) <= MOST_BYTES && TIMES * size(small) <= scan.files().location().sizeInBytes()) {
                found.add(new Link(scan, source.column(), small, key));
            }
        }
    }

    /** Whether of two links one would read what the other replaces or narrows. */
    private static boolean overlaps(LogicalPlan small, LogicalPlan large, List<Link> found) {
        for (Link link : found) {
            if (contains(small, link.scan().relation) || contains(link.small(), large)) return true;
            if (link.small() != small && (contains(small, link.small()) || contains(link.small(), small))) return true;
        }
        return false;
    }

    private static boolean contains(LogicalPlan plan, LogicalPlan wanted) {
        return plan.exists(Scala.predicate(one -> one == wanted));
    }

    /** Types whose equal values are one key of an index. */
    private static boolean isKey(DataType type) {
        return !(type instanceof FloatType || type instanceof DoubleType || type instanceof BinaryType);
    }

    private static boolean isFiltered(LogicalPlan plan) {
        return plan.exists(Scala.predicate(one ->
                one instanceof Filter filter && Conditions.conjuncts(filter.condition()).stream().anyMatch(Joins::selects)));
    }

    /** Whether a conjunct says more than that a column is not NULL. */
    static boolean selects(Expression conjunct) {
        return !(conjunct instanceof org.apache.spark.sql.catalyst.expressions.IsNotNull);
    }

    /** Whether a plan can be executed by itself, and streams nothing. */
    private static boolean isStable(LogicalPlan plan) {
        return !plan.isStreaming() && plan.resolved() && !plan.exists(Scala.predicate(Joins::refersOutside));
    }

    private static boolean refersOutside(LogicalPlan plan) {
        for (Expression one : Scala.list(plan.expressions())) {
            if (one.exists(Scala.predicate(node ->
                    node instanceof org.apache.spark.sql.catalyst.expressions.OuterReference || !node.deterministic()))) {
                return true;
            }
        }
        return plan instanceof org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
    }

    private static long size(LogicalPlan plan) {
        long sum = 0;
        for (LogicalPlan leaf : Scala.list(plan.collectLeaves())) {
            scala.math.BigInt size = leaf.stats().sizeInBytes();
            sum += size.isValidLong() ? Math.min(size.toLong(), Long.MAX_VALUE / 1024) : Long.MAX_VALUE / 1024;
        }
        return sum;
    }

    /** The relation whose column is passed on as this column, where a row of it with another value is of no use. */
    record Source(LogicalPlan relation, Attribute column) {}

    static Source source(LogicalPlan plan, Attribute column) {
        if (Scan.isIndexable(plan)) return plan.outputSet().contains(column) ? new Source(plan, column) : null;
        if (plan instanceof Filter filter) return source(filter.child(), column);
        if (plan instanceof Project project) {
            Attribute below = below(Scala.list(project.projectList()), column);
            return below == null ? null : source(project.child(), below);
        }
        if (plan instanceof Aggregate aggregate) {
            Attribute below = below(Scala.list(aggregate.aggregateExpressions()), column);
            boolean grouped = below != null && Scala.list(aggregate.groupingExpressions()).stream()
                    .anyMatch(one -> one instanceof Attribute group && group.exprId().equals(below.exprId()));
            return grouped ? source(aggregate.child(), below) : null;
        }
        if (plan instanceof Join join) {
            boolean left = join.left().outputSet().contains(column);
            JoinType type = join.joinType();
            if (left && (type == LeftOuter$.MODULE$ || type == LeftAnti$.MODULE$ || reducesLeft(type) && type != RightOuter$.MODULE$)) {
                return source(join.left(), column);
            }
            if (!left && (type == RightOuter$.MODULE$ || type == Inner$.MODULE$ || type == Cross$.MODULE$)) {
                return source(join.right(), column);
            }
        }
        return null;
    }

    private static Attribute below(List<NamedExpression> list, Attribute column) {
        for (NamedExpression one : list) {
            if (!one.exprId().equals(column.exprId())) continue;
            if (one instanceof Attribute attribute) return attribute;
            return one instanceof Alias alias && alias.child() instanceof Attribute attribute ? attribute : null;
        }
        return null;
    }

    /** The rows of a small side, null if they are too many. */
    static List<InternalRow> read(SparkSession session, LogicalPlan small) {
        Expression limit = new Literal(MOST_ROWS + 1, org.apache.spark.sql.types.DataTypes.IntegerType);
        LogicalPlan limited = new GlobalLimit(limit, new LocalLimit(limit, small));
        List<InternalRow> rows = Planner.quietly(() -> Aggregates.executed(session, limited));
        return rows.size() > MOST_ROWS ? null : rows;
    }

    /** The condition that a column is one of the keys in these rows; NULL equals nothing. */
    static Expression condition(Link link, List<InternalRow> rows) {
        int place = 0;
        for (Attribute one : Scala.list(link.small().output())) {
            if (one.exprId().equals(link.key().exprId())) break;
            place++;
        }
        Set<Object> keys = new HashSet<>();
        for (InternalRow row : rows) {
            if (!row.isNullAt(place)) keys.add(copied(row.get(place, link.key().dataType())));
        }
        return new InSet(link.column(), Scala.set(keys));
    }

    private static Object copied(Object value) {
        return value instanceof org.apache.spark.unsafe.types.UTF8String text ? text.copy() : value;
    }
}
