package hive_bitmap.catalyst.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Sort;

/**
 * The groups of an aggregation that a query needs. It sorts them by their numbers of rows, or by a sum, and takes the first
 * ones, or it takes any of them. The aggregation may return more groups: Spark's own sort and limit stay above it.
 *
 * @param rows how many groups the query takes, plus those that an OFFSET skips
 * @param first which groups come first: those with the "most" rows or the "fewest", or "any"
 * @param ties which groups with equally many rows come first: those with the "smallest" or the "largest" key, or "any"
 * @param sum the position of the sum, among the results of the aggregation, by which groups are sorted instead of the number of rows;
 *     -1 if there is none
 */
public record TopGroups(int rows, String first, String ties, int sum) {
    private static final int MAX_ROWS = 1000;
    private static final int NO_SUM = -1;

    /** The groups that a plan needs from an aggregation in it. */
    public record Of(Aggregate aggregate, TopGroups groups) {}

    /**
     * Returns the needed groups if a plan is a limit of groups, sorted or not, with only projections between limit, sort and
     * aggregation. Null for any other plan.
     */
    public static Of below(LogicalPlan plan) {
        if (!(plan instanceof LocalLimit limit)) return null;
        Integer rows = Expressions.integer(limit.limitExpr());
        if (rows == null || rows < 0 || rows > MAX_ROWS) return null;
        LogicalPlan limited = withoutProjections(limit.child(), new ArrayList<>());
        if (limited instanceof Aggregate aggregate) return isDistinct(aggregate) ? new Of(aggregate, new TopGroups(rows, "any", "any", NO_SUM)) : null;
        if (!(limited instanceof Sort sort) || !sort.global()) return null;
        List<Project> projections = new ArrayList<>();
        if (!(withoutProjections(sort.child(), projections) instanceof Aggregate aggregate)) return null;
        List<Expression> grouping = Scala.list(aggregate.groupingExpressions());
        List<SortOrder> orders = Scala.list(sort.order());
        if (grouping.size() != 1 || orders.isEmpty()) return null;
        Expression sorted = meant(orders.get(0).child(), projections, aggregate);
        if (!isSum(sorted) && !isNumberOfRows(sorted)) return null;
        String first = isAscending(orders.get(0)) ? "fewest" : "most";
        String ties = "any";
        if (orders.size() > 1) {
            Expression second = meant(orders.get(1).child(), projections, aggregate);
            if (second == null || !second.canonicalized().equals(grouping.get(0).canonicalized())) return null;
            ties = isAscending(orders.get(1)) ? "smallest" : "largest";
        }
        int sum = isSum(sorted) ? Scala.list(aggregate.aggregateExpressions()).stream().map(TopGroups::unnamed).toList().indexOf(sorted) : NO_SUM;
        return new Of(aggregate, new TopGroups(rows, first, ties, sum));
    }

    private static LogicalPlan withoutProjections(LogicalPlan plan, List<Project> projections) {
        LogicalPlan below = plan;
        while (below instanceof Project project) {
            projections.add(project);
            below = project.child();
        }
        return below;
    }

    /**
     * Returns whether an aggregation computes nothing but its groups. The results of any other one are known only when all rows are
     * read.
     */
    private static boolean isDistinct(Aggregate aggregate) {
        return Scala.list(aggregate.aggregateExpressions()).stream().noneMatch(result ->
                ((Expression) result).exists(Scala.predicate(node -> node instanceof AggregateExpression)));
    }

    private static boolean isAscending(SortOrder order) {
        return order.direction() == Ascending$.MODULE$;
    }

    /** Returns the expression of an aggregation that a sort key above projections is; null if the sort key is not a bare column. */
    private static Expression meant(Expression key, List<Project> projections, Aggregate aggregate) {
        return named(below(key, projections), Scala.list(aggregate.aggregateExpressions()));
    }

    /** Returns the expression that a column above projections is; null if it is not a bare column above each of them. */
    private static Expression below(Expression column, List<Project> projections) {
        Expression expression = column;
        for (Project project : projections) expression = named(expression, Scala.list(project.projectList()));
        return expression;
    }

    private static Expression named(Expression expression, List<NamedExpression> outputs) {
        if (!(expression instanceof Attribute used)) return null;
        for (NamedExpression output : outputs) {
            if (output.exprId().equals(used.exprId())) return unnamed(output);
        }
        return null;
    }

    private static Expression unnamed(NamedExpression output) {
        return output instanceof Alias alias ? alias.child() : (Expression) output;
    }

    private static boolean isSum(Expression expression) {
        return expression instanceof AggregateExpression sum && sum.aggregateFunction().getClass() == Sum.class && !sum.isDistinct()
                && sum.filter().isEmpty();
    }

    private static boolean isNumberOfRows(Expression expression) {
        return expression instanceof AggregateExpression aggregate
                && aggregate.aggregateFunction().getClass() == Count.class && !aggregate.isDistinct() && aggregate.filter().isEmpty()
                && Scala.list(aggregate.aggregateFunction().children()).stream()
                        .allMatch(argument -> argument instanceof Literal literal && literal.value() != null);
    }

    /** Returns whether groups are sorted by a sum. */
    public boolean isBySum() {
        return sum != NO_SUM;
    }

    /** Writes the fields of this record to an object of a question, without the sum. */
    public ObjectNode writeTo(ObjectNode top) {
        return top.put("rows", rows).put("first", first).put("ties", ties);
    }
}
