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
 * A query for one row of constants if a plan has any row, which is how Spark plans an uncorrelated EXISTS and what users
 * write as {@code SELECT 1 .. LIMIT 1}. It has the same result as the constants filtered by {@code count(*) > 0}.
 *
 * @param plan the limit
 * @param constants the projection right below it
 * @param rows what is below the projection
 * @param count the count of these rows
 */
public record Existence(LogicalPlan plan, Project constants, LogicalPlan rows, Aggregate count) {
    /** Returns the parts of such a query; null if {@code plan} is another one. */
    public static Existence of(LogicalPlan plan) {
        if (!(plan instanceof GlobalLimit global) || !Integer.valueOf(1).equals(Expressions.integer(global.limitExpr()))) return null;
        LogicalPlan below = global.child() instanceof LocalLimit local ? local.child() : global.child();
        if (!(below instanceof Project constants)) return null;
        for (NamedExpression one : Scala.list(constants.projectList())) {
            if (!(one instanceof Alias alias) || !alias.child().foldable()) return null;
        }
        return new Existence(plan, constants, constants.child(), Expressions.countOf(constants.child()));
    }

    /** Returns the plan for the constants, given a plan whose only column is the count. */
    LogicalPlan from(LogicalPlan answer) {
        Attribute rows = Scala.list(answer.output()).get(0);
        Expression some = new GreaterThan(rows, new Literal(0L, DataTypes.LongType));
        return new Project(constants.projectList(), new Filter(some, answer));
    }
}
