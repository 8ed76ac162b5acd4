package hive_bitmap.catalyst.keys;

import com.fasterxml.jackson.databind.JsonNode;
import hive_bitmap.catalyst.spark.Expressions;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.CaseWhen;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;

/**
 * Expressions that indexes aggregate: sums, differences, products and wider casts of columns that are integers or decimals. They
 * are computed under the settings that the index records, and answer only for an equal expression under equal settings.
 *
 * <p>Equal expressions overflow for the same rows. So they are compared as trees, in which only the two operands of one addition or
 * multiplication may change places: Spark's canonical form also regroups the terms of longer sums. An operand that can fail keeps
 * its place, because Spark does not compute it where an operand before it is NULL.
 */
public final class AggregatedExpressions {
    private static final Set<String> SWAPPED = Set.of("Add", "Multiply");

    private AggregatedExpressions() {}

    /**
     * An aggregated expression that a query may use.
     *
     * @param form the expression over the columns of the relation, as it is compared
     * @param column a column that stands for the expression
     * @param source the expression over the columns of the relation
     */
    public record Measured(Expression form, AttributeReference column, Expression source) {}

    /** Resolves an aggregated expression over the columns of a relation. Throws NotServed if this session cannot. */
    public static Measured of(SparkSession session, JsonNode described, List<Attribute> columns) {
        Expression source = KeyExpressions.source(session, described, columns);
        return new Measured(form(source), Expressions.attribute(described.path("name").asText(), source.dataType(), true), source);
    }

    /** Returns an expression in the form in which two expressions are compared. */
    private static Expression form(Expression expression) {
        return (Expression) StoredFunctions.normalized(expression).transformUp(Scala.replacing(node -> {
            if (node instanceof AttributeReference column) return column.canonicalized();
            if (!SWAPPED.contains(StoredFunctions.name(node))) return null;
            List<Expression> operands = Scala.list(node.children());
            if (operands.stream().anyMatch(AggregatedOperations::canFail)) return null;
            boolean isOrdered = operands.get(0).toString().compareTo(operands.get(1).toString()) <= 0;
            return isOrdered ? null : (Expression) node.withNewChildren(Scala.seq(List.of(operands.get(1), operands.get(0))));
        }));
    }

    /**
     * Returns whether an expression can fail, and the aggregation computes it only under conditions (FILTER, CASE). Spark may compute
     * it for other rows too, and fail, depending on how it executes the aggregation. Only if the expression fails for no row at all,
     * the aggregates are certain.
     */
    public static boolean isConditional(Measured measured, Aggregate aggregate, UnaryOperator<Expression> inScan) {
        if (!AggregatedOperations.canFail(measured.source())) return false;
        for (AggregateExpression over : Expressions.aggregates(aggregate)) {
            List<Expression> arguments = Scala.list(over.aggregateFunction().children());
            if (over.filter().isEmpty() && arguments.size() == 1 && form(inScan.apply(arguments.get(0))).equals(measured.form())) return false;
        }
        return true;
    }

    /** Replaces the arguments of aggregates that are expressions of an index by the columns that stand for them. */
    public static Expression replaced(Expression result, List<Measured> measured) {
        if (measured.isEmpty()) return result;
        return (Expression) result.transformDown(Scala.replacing(node -> {
            if (!(node instanceof AggregateExpression aggregate) || aggregate.isDistinct()) return null;
            List<Expression> arguments = Scala.list(aggregate.aggregateFunction().children());
            if (arguments.size() != 1) return null;
            Expression argument = replacedArgument(arguments.get(0), measured);
            if (argument == arguments.get(0)) return null;
            Expression function = (Expression) ((Expression) aggregate.aggregateFunction()).withNewChildren(Scala.seq(List.of(argument)));
            List<Expression> children = new ArrayList<>(Scala.list(aggregate.children()));
            children.set(0, function);
            return (Expression) aggregate.withNewChildren(Scala.seq(children));
        }));
    }

    /** Replaces expressions that an argument is, also as a branch of CASE. */
    private static Expression replacedArgument(Expression argument, List<Measured> measured) {
        Expression form = form(argument);
        for (Measured one : measured) if (one.form().equals(form)) return one.column();
        if (!(argument instanceof CaseWhen || argument instanceof If || argument instanceof Cast)) return argument;
        List<Expression> children = Scala.list(argument.children());
        List<Expression> replaced = children.stream().map(child -> replacedArgument(child, measured)).toList();
        return replaced.equals(children) ? argument : (Expression) argument.withNewChildren(Scala.seq(replaced));
    }
}
