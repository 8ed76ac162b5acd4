package hive_bitmap.catalyst.spark;

import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.CaseWhen;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import scala.Tuple2;

/**
 * Rewrites aggregates over a CASE of one column as aggregates over the column with a FILTER, with the same result. These are {@code
 * sum(CASE WHEN c THEN x ELSE 0 END)}, and any function of {@code CASE WHEN c THEN x END}.
 */
public final class Cases {
    private static final Set<DataType> INTEGERS = Set.of(
            DataTypes.ByteType, DataTypes.ShortType, DataTypes.IntegerType, DataTypes.LongType);

    private Cases() {}

    /** Rewrites the aggregates in a result of an aggregation. */
    public static Expression filtered(Expression result) {
        return (Expression) result.transformUp(Scala.replacing(
                node -> node instanceof AggregateExpression aggregate ? filtered(aggregate) : null));
    }

    private static Expression filtered(AggregateExpression aggregate) {
        AggregateFunction function = aggregate.aggregateFunction();
        List<Expression> arguments = Scala.list(function.children());
        if (aggregate.isDistinct() || aggregate.filter().isDefined() || arguments.size() != 1) return null;
        If test = asIf(arguments.get(0));
        if (test == null) return null;
        if (test.falseValue() instanceof Literal literal && literal.value() == null) {
            return test.trueValue() instanceof Attribute column ? over(function, column, test.predicate()) : null;
        }
        Attribute column = unwidened(test.trueValue());
        if (column == null || function.getClass() != Sum.class || !isZero(test.falseValue())) return null;
        Expression isFalse = new Not(new EqualNullSafe(test.predicate(), new Literal(true, DataTypes.BooleanType)));
        Expression others = new GreaterThan(
                over(Expressions.countAll().aggregateFunction(), new Literal(1, DataTypes.IntegerType), isFalse),
                new Literal(0L, DataTypes.LongType));
        Expression zero = Expressions.cast(test.falseValue(), function.dataType());
        return new Coalesce(Scala.seq(List.of(
                Expressions.cast(over(function, column, test.predicate()), function.dataType()),
                new If(others, zero, new Literal(null, function.dataType())))));
    }

    /** Returns a CASE with one condition as IF; null for any other expression. */
    private static If asIf(Expression expression) {
        if (expression instanceof If test) return test;
        if (!(expression instanceof CaseWhen cases) || Scala.size(cases.branches()) != 1) return null;
        Tuple2<Expression, Expression> branch = Scala.list(cases.branches()).get(0);
        Expression otherwise = cases.elseValue().isDefined()
                ? cases.elseValue().get() : new Literal(null, branch._2().dataType());
        return new If(branch._1(), branch._2(), otherwise);
    }

    private static AggregateExpression over(AggregateFunction function, Expression argument, Expression condition) {
        return Expressions.aggregateWhere(condition, (AggregateFunction) function.withNewChildren(Scala.seq(List.of(argument))));
    }

    /**
     * Returns the column that an expression is, or that it casts to a wider type of numbers with the same scale; null for any other
     * expression.
     */
    private static Attribute unwidened(Expression expression) {
        if (expression instanceof Attribute column) return column;
        if (!(expression instanceof Cast cast) || !(cast.child() instanceof Attribute column)) return null;
        if (column.dataType() instanceof DecimalType from && cast.dataType() instanceof DecimalType to) {
            return from.scale() == to.scale() && from.precision() <= to.precision() ? column : null;
        }
        boolean isWider = INTEGERS.contains(column.dataType()) && INTEGERS.contains(cast.dataType())
                && column.dataType().defaultSize() <= cast.dataType().defaultSize();
        return isWider ? column : null;
    }

    private static boolean isZero(Expression expression) {
        if (!(expression instanceof Literal literal) || literal.value() == null) return false;
        if (literal.value() instanceof org.apache.spark.sql.types.Decimal decimal) return decimal.toJavaBigDecimal().signum() == 0;
        return INTEGERS.contains(literal.dataType()) && ((Number) literal.value()).longValue() == 0;
    }
}
