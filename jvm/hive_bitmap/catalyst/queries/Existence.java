package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.spark.Expressions;
import hive_bitmap.catalyst.spark.Scala;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.DataTypes;

/**
 * A query for a row of constants, provided that a plan has any row. Spark plans an uncorrelated EXISTS like this, and users write
 * it as {@code SELECT 1 .. LIMIT 1}. The constants filtered by {@code count(*) > 0} are the same result.
 *
 * @param plan the limit
 * @param constants the projection right below the limit
 * @param rows the plan below the projection
 * @param count the aggregation that counts {@code rows}
 */
public record Existence(LogicalPlan plan, Project constants, LogicalPlan rows, Aggregate count) {
    /** Returns the parts of such a query; null if {@code plan} is a different query. */
    public static Existence of(LogicalPlan plan) {
        if (!(plan instanceof GlobalLimit global) || !Integer.valueOf(1).equals(Expressions.integer(global.limitExpr()))) return null;
        LogicalPlan below = global.child() instanceof LocalLimit local ? local.child() : global.child();
        if (!(below instanceof Project constants)) return null;
        for (NamedExpression constant : Scala.list(constants.projectList())) {
            if (!(constant instanceof Alias alias) || !alias.child().foldable()) return null;
        }
        return new Existence(plan, constants, constants.child(), Expressions.countOf(constants.child()));
    }

    /** Returns the plan for the constants. {@code answer} is a plan with the count as its only column. */
    LogicalPlan from(LogicalPlan answer) {
        Attribute rows = Scala.list(answer.output()).get(0);
        Expression hasRows = new GreaterThan(rows, new Literal(0L, DataTypes.LongType));
        return new Project(constants.projectList(), new Filter(hasRows, answer));
    }
}
