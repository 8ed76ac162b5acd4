package hive_bitmap.catalyst.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NullsFirst$;
import org.apache.spark.sql.catalyst.expressions.RaiseError;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;
import org.apache.spark.sql.catalyst.plans.logical.CollectMetrics;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Offset;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.Subquery;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * The rows that a query needs from a scan, because it sorts them and takes the first ones. The scan may return more rows: Spark's
 * own sort and limit stay above it.
 *
 * @param column the column of the scan that is the first sort key
 * @param ascending whether the smallest values come first
 * @param nullsFirst whether NULL comes before all values
 * @param rows how many rows the query takes, plus those that an OFFSET skips
 */
public record FirstRows(String column, boolean ascending, boolean nullsFirst, int rows) {
    private static final int MAX_ROWS = 50_000;
    /** The types that Spark orders as Python orders the minimum and maximum of blocks. */
    private static final Set<DataType> ORDERED = Set.of(
            DataTypes.ByteType, DataTypes.ShortType, DataTypes.IntegerType, DataTypes.LongType, DataTypes.DateType,
            DataTypes.TimestampType, DataTypes.TimestampNTZType);

    /**
     * The rows that a query needs from a relation.
     *
     * @param sort the sort above the relation
     * @param projections the projections between the sort and the relation, from top to bottom
     */
    public record Of(LogicalPlan relation, FirstRows rows, Sort sort, List<Project> projections) {
        /** Returns a plan for the needed rows of {@code plan}, which has the columns of the relation. */
        public LogicalPlan limited(LogicalPlan plan) {
            LogicalPlan sorted = (LogicalPlan) sort.withNewChildren(Scala.seq(List.of(plan)));
            for (Project project : projections) {
                List<NamedExpression> outputs = Scala.list(project.projectList());
                sorted = (LogicalPlan) sorted.transformExpressions(Scala.replacing(used -> computed(used, outputs)));
            }
            Expression limit = new Literal(rows.rows, DataTypes.IntegerType);
            return new GlobalLimit(limit, new LocalLimit(limit, sorted));
        }
    }

    /**
     * Returns the rows that a query needs from its relations. The list is empty for a query with observed metrics, and for a
     * subquery.
     */
    public static List<Of> in(LogicalPlan query) {
        List<Of> all = new ArrayList<>();
        if (query instanceof Subquery || query.exists(Scala.predicate(node -> node instanceof CollectMetrics))) return all;
        for (LogicalPlan limit : Scala.list(query.collect(Scala.<LogicalPlan>replacing(node -> node instanceof GlobalLimit ? node : null)))) {
            Of needed = below(limit);
            if (needed != null) all.add(needed);
        }
        return all;
    }

    /**
     * Returns the rows that a limit needs from a relation. Null unless there is exactly one sort in between, and besides it only
     * projections and one filter.
     */
    private static Of below(LogicalPlan limit) {
        long rows = Long.MAX_VALUE;
        LogicalPlan plan = limit;
        for (; !(plan instanceof Sort); plan = Scala.list(plan.children()).get(0)) {
            if (plan instanceof GlobalLimit global) {
                Integer number = Expressions.integer(global.limitExpr());
                if (number == null) return null;
                rows = Math.min(rows, number);
            } else if (plan instanceof LocalLimit local) {
                Integer number = Expressions.integer(local.limitExpr());
                if (number == null || number < rows) return null;
            } else if (plan instanceof Offset offset) {
                Integer number = Expressions.integer(offset.offsetExpr());
                if (number == null) return null;
                rows += number;
            } else if (!(plan instanceof Project) || !isPure(plan)) {
                return null;
            }
        }
        Sort sort = (Sort) plan;
        if (rows < 1 || rows > MAX_ROWS || !sort.global() || !isPure(sort)) return null;
        List<Project> projections = new ArrayList<>();
        plan = sort.child();
        for (; plan instanceof Project project; plan = project.child()) {
            if (!isPure(project)) return null;
            projections.add(project);
        }
        LogicalPlan relation = plan instanceof Filter filter ? filter.child() : plan;
        SortOrder first = Scala.list(sort.order()).get(0);
        Attribute column = column(first.child(), projections);
        if (column == null || !relation.outputSet().contains(column) || !ORDERED.contains(column.dataType())) return null;
        boolean nullsFirst = first.nullOrdering() == NullsFirst$.MODULE$;
        return new Of(relation, new FirstRows(column.name(), first.direction() == Ascending$.MODULE$, nullsFirst, (int) rows), sort, projections);
    }

    /** Returns whether an operator computes values of each row by itself, so that other rows may be left out below it. */
    private static boolean isPure(LogicalPlan operator) {
        return Scala.list(operator.expressions()).stream().allMatch(expression -> expression.deterministic()
                && !expression.exists(Scala.predicate(node -> node instanceof SubqueryExpression || node instanceof UserDefinedExpression
                        || node instanceof RaiseError)));
    }

    /** Returns the column of the relation that is a sort key; null if the sort key is computed. */
    private static Attribute column(Expression key, List<Project> projections) {
        Expression expression = key;
        for (Project project : projections) {
            Expression computed = computed(expression, Scala.list(project.projectList()));
            if (computed != null) expression = computed;
        }
        return expression instanceof Attribute column ? column : null;
    }

    /**
     * Returns the expression that a projection computes for an attribute; null if it passes the attribute on, and for an expression
     * that is not an attribute.
     */
    private static Expression computed(Expression expression, List<NamedExpression> outputs) {
        if (!(expression instanceof Attribute used)) return null;
        for (NamedExpression output : outputs) {
            if (output instanceof Alias alias && alias.exprId().equals(used.exprId())) return alias.child();
        }
        return null;
    }

    /** Writes the fields of this record to an object of a question. */
    public void writeTo(ObjectNode first) {
        first.put("column", column).put("ascending", ascending).put("nulls_first", nullsFirst).put("rows", rows);
    }
}
