package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.spark.Allowlist;
import hive_bitmap.catalyst.spark.Expressions;
import hive_bitmap.catalyst.spark.Scala;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Multiply;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Average;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;

/**
 * The aggregate functions that are computed from distinct keys and weights (how often each key occurs), by Spark's own
 * functions. {@code count(x)} is the sum of the weights of the keys whose {@code x} is not NULL, {@code sum(x)} the
 * function's own sum of {@code x * weight}, {@code avg(x)} what the function makes of that sum and count; MIN, MAX and
 * DISTINCT aggregates do not depend on the weights.
 *
 * <p>Whether a sum that overflows is an error, NULL, or wraps, may depend on the order of the rows. So a sum counts only if
 * no order of its rows overflows, which {@link #isExact} proves for the keys that were counted.
 */
final class KeyAggregates {
    private static final Map<DataType, Integer> INTEGER_BITS = Map.of(
            DataTypes.ByteType, 7, DataTypes.ShortType, 15, DataTypes.IntegerType, 31, DataTypes.LongType, 63);
    private static final int LONG_BITS = 63;
    private static final int DOUBLE_BITS = 53; // an average of integers adds up in doubles
    private static final DecimalType WEIGHT = new DecimalType(18, 0);

    private KeyAggregates() {}

    /** Returns why an aggregate is not computed from keys; null if it is. */
    static String refusal(AggregateExpression one) {
        AggregateFunction function = one.aggregateFunction();
        if (!isKnown(one)) return needsRows(function);
        boolean grouped = function.getClass() == Count.class && one.isDistinct();
        List<String> refusals = new ArrayList<>();
        for (Expression argument : Scala.list(function.children())) {
            refusals.add(grouped ? Allowlist.refusalAsKey(argument) : Allowlist.refusalAsArgument(argument));
        }
        if (one.filter().isDefined()) refusals.add(Allowlist.refusal(one.filter().get()));
        return refusals.stream().filter(Objects::nonNull).findFirst().orElse(null);
    }

    /** Whether an aggregate is one of these functions, and of a type of which it is computed. */
    private static boolean isKnown(AggregateExpression one) {
        Class<?> function = one.aggregateFunction().getClass();
        if (function == Min.class || function == Max.class) return Allowlist.isExact(argument(one).dataType());
        return function == Count.class || isSum(one.aggregateFunction()) && hasExactProduct(argument(one));
    }

    /** Whether an aggregate is MIN or MAX of this key itself, or the number of all rows. */
    static boolean needsExtremes(AggregateExpression one, Attribute key) {
        AggregateFunction function = one.aggregateFunction();
        if (one.filter().isDefined() || one.isDistinct()) return false;
        if (function.getClass() == Count.class) {
            return Scala.list(function.children()).stream().allMatch(each -> each instanceof Literal literal && literal.value() != null);
        }
        return argument(one) instanceof Attribute column && column.exprId().equals(key.exprId())
                && (function.getClass() == Min.class || function.getClass() == Max.class);
    }

    private static String needsRows(AggregateFunction function) {
        List<String> types = Scala.list(function.children()).stream().map(child -> child.dataType().sql()).toList();
        return function.prettyName() + " of " + String.join(", ", types) + " needs the rows";
    }

    private static boolean isSum(AggregateFunction function) {
        return function.getClass() == Sum.class || function.getClass() == Average.class;
    }

    private static Expression argument(AggregateExpression one) {
        return Scala.list(one.aggregateFunction().children()).get(0);
    }

    /** Whether the product of an argument and a weight has all digits of both: Spark cuts those of decimals beyond 38. */
    private static boolean hasExactProduct(Expression argument) {
        if (!(argument.dataType() instanceof DecimalType type)) return INTEGER_BITS.containsKey(argument.dataType());
        DataType product = product(argument, new Literal(1L, DataTypes.LongType)).dataType();
        return product instanceof DecimalType found && found.scale() == type.scale();
    }

    private static Expression product(Expression argument, Expression weight) {
        boolean decimal = argument.dataType() instanceof DecimalType;
        return decimal ? new Multiply(argument, Expressions.cast(weight, WEIGHT))
                : new Multiply(Expressions.cast(argument, DataTypes.LongType), weight);
    }

    /** Rewrites an aggregate over rows to one over keys and weights. */
    static Expression overKeys(AggregateExpression one, Expression weight) {
        AggregateFunction function = one.aggregateFunction();
        if (one.isDistinct() || function instanceof Min || function instanceof Max) return one;
        List<Expression> arguments = Scala.list(function.children());
        Expression present = new Sum(weightOfPresent(arguments, weight));
        Expression rows = new Coalesce(Scala.seq(List.of(
                Expressions.aggregate((AggregateFunction) present, one), new Literal(0L, DataTypes.LongType))));
        if (function instanceof Count) return rows;
        Expression product = product(arguments.get(0), weight);
        if (function instanceof Sum) {
            AggregateFunction total = (AggregateFunction) function.withNewChildren(Scala.seq(List.of(product)));
            return Expressions.cast(Expressions.aggregate(total, one), function.dataType());
        }
        return mean((DeclarativeAggregate) function, Expressions.aggregate(new Sum(product), one), rows);
    }

    /** Returns what an average makes of its buffer, a sum and a count. */
    private static Expression mean(DeclarativeAggregate function, Expression total, Expression rows) {
        Attribute sum = Scala.list(function.aggBufferAttributes()).get(0);
        Attribute count = Scala.list(function.aggBufferAttributes()).get(1);
        return (Expression) function.evaluateExpression().transform(Scala.replacing(node -> {
            if (!(node instanceof Attribute used)) return null;
            if (used.exprId().equals(sum.exprId())) return Expressions.cast(total, sum.dataType());
            return used.exprId().equals(count.exprId()) ? rows : null;
        }));
    }

    /** Returns the expression of a key's weight, which is 0 if one of the arguments is NULL. */
    private static Expression weightOfPresent(List<Expression> arguments, Expression weight) {
        Expression missing = null;
        for (Expression one : arguments) {
            if (one instanceof Literal literal && literal.value() != null) continue;
            missing = missing == null ? new IsNull(one) : new Or(missing, new IsNull(one));
        }
        return missing == null ? weight : new If(missing, new Literal(0L, DataTypes.LongType), weight);
    }

    /**
     * Whether an aggregate over the rows of these keys is the same in each order of the rows: no sum of some of them has more
     * digits than Spark keeps. {@code weight} is the place of the weight in the keys, whose columns are {@code input}.
     */
    static boolean isExact(AggregateExpression one, List<Attribute> input, int weight, List<InternalRow> keys) {
        if (!isSum(one.aggregateFunction())) return true;
        if (!hasExactProduct(argument(one))) return false; // settings may have changed since the query was planned
        BigInteger rows = BigInteger.valueOf(keys.stream().mapToLong(key -> key.getLong(weight)).sum());
        BigInteger limit = limit(one);
        if (largestOfType(argument(one).dataType()).multiply(rows).compareTo(limit) < 0) return true;
        return largest(one, input, keys).multiply(rows).compareTo(limit) < 0;
    }

    /** Returns what the absolute value of a sum, of unscaled decimals, must be less than. */
    private static BigInteger limit(AggregateExpression one) {
        boolean average = one.aggregateFunction() instanceof Average;
        if (argument(one).dataType() instanceof DecimalType type) {
            return BigInteger.TEN.pow(Math.min(DecimalType.MAX_PRECISION(), type.precision() + 10));
        }
        return BigInteger.TWO.pow(average ? DOUBLE_BITS : LONG_BITS);
    }

    private static BigInteger largestOfType(DataType type) {
        return type instanceof DecimalType decimal
                ? BigInteger.TEN.pow(decimal.precision()) : BigInteger.TWO.pow(INTEGER_BITS.get(type));
    }

    /** Returns the largest absolute value, of unscaled decimals, that is added up. */
    private static BigInteger largest(AggregateExpression one, List<Attribute> input, List<InternalRow> keys) {
        Expression argument = Expressions.bound(argument(one), input);
        Expression filter = one.filter().isEmpty() ? null : Expressions.bound(one.filter().get(), input);
        BigInteger largest = BigInteger.ZERO;
        for (InternalRow key : keys) {
            if (filter != null && !Boolean.TRUE.equals(filter.eval(key))) continue;
            Object value = argument.eval(key);
            if (value != null) largest = largest.max(unscaled(value).abs());
        }
        return largest;
    }

    private static BigInteger unscaled(Object value) {
        return value instanceof Decimal decimal
                ? decimal.toJavaBigDecimal().unscaledValue() : BigInteger.valueOf(((Number) value).longValue());
    }
}
