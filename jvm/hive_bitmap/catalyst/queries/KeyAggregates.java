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
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Multiply;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.UnscaledValue;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Average;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.catalyst.optimizer.DecimalAggregates$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import scala.Option;

/**
 * The aggregate functions that can be computed from distinct keys and weights, by Spark's own functions. {@code count(x)} is the
 * sum of the weights of the keys with an {@code x} that is not NULL. {@code sum(x)} is Spark's sum of {@code x * weight}. {@code
 * avg(x)} is what Spark's function computes from that sum and count. MIN, MAX and DISTINCT aggregates do not depend on the weights.
 *
 * <p>Whether a sum that overflows is an error, is NULL, or wraps may depend on the order of the rows. So a sum is used only if it
 * overflows in no order of its rows, which {@link #isExact} proves for the counted keys.
 */
final class KeyAggregates {
    private static final Map<DataType, Integer> INTEGER_BITS = Map.of(
            DataTypes.ByteType, 7, DataTypes.ShortType, 15, DataTypes.IntegerType, 31, DataTypes.LongType, 63);
    private static final int LONG_BITS = 63;
    private static final int DOUBLE_BITS = 53; // an average of integers adds them up in doubles
    private static final DecimalType WEIGHT = new DecimalType(18, 0);

    private KeyAggregates() {}

    /** Returns why an aggregate cannot be computed from keys; null if it can. */
    static String refusal(AggregateExpression aggregate) {
        AggregateFunction function = aggregate.aggregateFunction();
        if (!isSupported(aggregate)) return needsRows(function);
        boolean grouped = function.getClass() == Count.class && aggregate.isDistinct();
        List<String> refusals = new ArrayList<>();
        for (Expression argument : Scala.list(function.children())) {
            refusals.add(grouped ? Allowlist.refusalAsKey(argument) : Allowlist.refusalAsArgument(argument));
        }
        if (aggregate.filter().isDefined()) refusals.add(Allowlist.refusal(aggregate.filter().get()));
        return refusals.stream().filter(Objects::nonNull).findFirst().orElse(null);
    }

    /** Returns whether the function of an aggregate is supported for the type of its argument. */
    private static boolean isSupported(AggregateExpression aggregate) {
        Class<?> function = aggregate.aggregateFunction().getClass();
        if (function == Min.class || function == Max.class) return Allowlist.isExact(argument(aggregate).dataType());
        return function == Count.class || isSum(aggregate.aggregateFunction()) && hasExactProduct(argument(aggregate));
    }

    /** Returns whether an aggregate is MIN or MAX of this key column, or counts all rows. */
    static boolean needsExtremes(AggregateExpression aggregate, Attribute key) {
        AggregateFunction function = aggregate.aggregateFunction();
        if (aggregate.filter().isDefined() || aggregate.isDistinct()) return false;
        if (function.getClass() == Count.class) {
            return Scala.list(function.children()).stream().allMatch(argument -> argument instanceof Literal literal && literal.value() != null);
        }
        return argument(aggregate) instanceof Attribute column && column.exprId().equals(key.exprId())
                && (function.getClass() == Min.class || function.getClass() == Max.class);
    }

    /**
     * Returns whether a summary of this key column is enough for an aggregate. A summary has the extremes, and the numbers of rows,
     * NULLs and distinct keys.
     */
    static boolean needsSummary(AggregateExpression aggregate, Attribute key) {
        if (needsExtremes(aggregate, key)) return true;
        AggregateFunction function = aggregate.aggregateFunction();
        if (aggregate.filter().isDefined() || function.getClass() != Count.class) return false;
        List<Expression> arguments = Scala.list(function.children());
        return arguments.size() == 1 && arguments.get(0) instanceof Attribute column && column.exprId().equals(key.exprId());
    }

    /**
     * Rewrites an aggregate over rows to one over a summary. {@code distinct} is the column that adds up to the number of distinct
     * keys.
     */
    static Expression overSummary(AggregateExpression aggregate, Expression weight, Expression distinct) {
        if (!aggregate.isDistinct() || aggregate.aggregateFunction().getClass() != Count.class) return overKeys(aggregate, weight);
        Expression keys = Expressions.aggregate((AggregateFunction) new Sum(distinct), aggregate);
        return new Coalesce(Scala.seq(List.of(keys, new Literal(0L, DataTypes.LongType))));
    }

    private static String needsRows(AggregateFunction function) {
        List<String> types = Scala.list(function.children()).stream().map(child -> child.dataType().sql()).toList();
        String needs = function.prettyName() + " of " + String.join(", ", types) + " needs the rows";
        return isSum(function) && Scala.list(function.children()).stream().anyMatch(child -> isFloating(child.dataType()))
                ? needs + ", as it depends on their order: of decimals such as decimal(18,2), an index can hold the sums" : needs;
    }

    private static boolean isFloating(DataType type) {
        return type.equals(DataTypes.FloatType) || type.equals(DataTypes.DoubleType);
    }

    private static boolean isSum(AggregateFunction function) {
        return function.getClass() == Sum.class || function.getClass() == Average.class;
    }

    private static Expression argument(AggregateExpression aggregate) {
        return Scala.list(aggregate.aggregateFunction().children()).get(0);
    }

    /** Returns whether the product of an argument and a weight keeps all digits, although Spark cuts decimals at 38 digits. */
    private static boolean hasExactProduct(Expression argument) {
        if (!(argument.dataType() instanceof DecimalType type)) return INTEGER_BITS.containsKey(argument.dataType());
        DataType product = product(argument, new Literal(1L, DataTypes.LongType)).dataType();
        return product instanceof DecimalType decimal && decimal.scale() == type.scale();
    }

    private static Expression product(Expression argument, Expression weight) {
        boolean decimal = argument.dataType() instanceof DecimalType;
        return decimal ? new Multiply(argument, Expressions.cast(weight, WEIGHT))
                : new Multiply(Expressions.cast(argument, DataTypes.LongType), weight);
    }

    /** Rewrites an aggregate over rows to one over keys and weights. */
    static Expression overKeys(AggregateExpression aggregate, Expression weight) {
        AggregateFunction function = aggregate.aggregateFunction();
        if (function instanceof Min || function instanceof Max) return aggregate;
        if (aggregate.isDistinct()) return function instanceof Average ? optimized(aggregate) : aggregate;
        List<Expression> arguments = Scala.list(function.children());
        Expression present = new Sum(weightOfPresent(arguments, weight));
        Expression rows = new Coalesce(Scala.seq(List.of(
                Expressions.aggregate((AggregateFunction) present, aggregate), new Literal(0L, DataTypes.LongType))));
        if (function instanceof Count) return rows;
        Expression product = product(arguments.get(0), weight);
        if (function instanceof Sum) {
            AggregateFunction total = (AggregateFunction) function.withNewChildren(Scala.seq(List.of(product)));
            return Expressions.cast(Expressions.aggregate(total, aggregate), function.dataType());
        }
        return mean(aggregate, Expressions.aggregate(new Sum(product), aggregate), rows);
    }

    /** Returns the expression by which Spark computes an average from the sum and the number of its values. */
    static Expression mean(AggregateExpression average, Expression total, Expression rows) {
        return (Expression) optimized(average).transformUp(Scala.replacing(node -> {
            if (!(node instanceof AggregateExpression added)) return null;
            Expression sum = argument(added) instanceof UnscaledValue unscaled
                    ? new UnscaledValue(Expressions.cast(total, longDecimal(unscaled.child()))) : total;
            return evaluated((DeclarativeAggregate) added.aggregateFunction(), sum, rows);
        }));
    }

    private static DataType longDecimal(Expression decimal) {
        return new DecimalType(Decimal.MAX_LONG_DIGITS(), ((DecimalType) decimal.dataType()).scale());
    }

    /**
     * Returns an average as Spark's optimizer computes it. For decimals with few digits, it adds up the unscaled values in doubles,
     * and scales the result.
     */
    private static Expression optimized(AggregateExpression average) {
        DecimalAggregates$ rule = DecimalAggregates$.MODULE$;
        Option<String> excluded = SQLConf.get().optimizerExcludedRules();
        if (excluded.isDefined() && excluded.get().contains(rule.ruleName())) return average;
        List<NamedExpression> results = List.of(Expressions.alias(average, "average"));
        LogicalPlan plan = new Aggregate(Scala.seq(List.of()), Scala.seq(results), new OneRowRelation(), Option.empty());
        return ((Alias) Scala.list(((Aggregate) rule.apply(plan)).aggregateExpressions()).get(0)).child();
    }

    /** Returns the aggregate that adds up the values of SUM or AVG when Spark executes it. */
    private static AggregateExpression adding(AggregateExpression aggregate) {
        if (!(aggregate.aggregateFunction() instanceof Average)) return aggregate;
        List<AggregateExpression> added = new ArrayList<>();
        DriverAggregation.addAggregates(optimized(aggregate), added);
        return added.get(0);
    }

    private static Expression evaluated(DeclarativeAggregate function, Expression total, Expression rows) {
        Attribute sum = Scala.list(function.aggBufferAttributes()).get(0);
        Attribute count = Scala.list(function.aggBufferAttributes()).get(1);
        return (Expression) function.evaluateExpression().transform(Scala.replacing(node -> {
            if (!(node instanceof Attribute used)) return null;
            if (used.exprId().equals(sum.exprId())) return Expressions.cast(total, sum.dataType());
            return used.exprId().equals(count.exprId()) ? rows : null;
        }));
    }

    /** Returns the expression for the weight of a key, which is 0 if one of the arguments is NULL. */
    private static Expression weightOfPresent(List<Expression> arguments, Expression weight) {
        Expression missing = null;
        for (Expression argument : arguments) {
            if (argument instanceof Literal literal && literal.value() != null) continue;
            missing = missing == null ? new IsNull(argument) : new Or(missing, new IsNull(argument));
        }
        return missing == null ? weight : new If(missing, new Literal(0L, DataTypes.LongType), weight);
    }

    /**
     * Returns whether no order of the rows of these keys makes an aggregate overflow: no partial sum has more digits than Spark
     * keeps. {@code input} are the columns of {@code keys}; {@code weight} is the position of the weight among them.
     */
    static boolean isExact(AggregateExpression aggregate, List<Attribute> input, int weight, List<InternalRow> keys) {
        if (!isSum(aggregate.aggregateFunction())) return true;
        if (!hasExactProduct(argument(aggregate))) return false; // settings may have changed since the query was planned
        BigInteger rows = BigInteger.valueOf(keys.stream().mapToLong(key -> key.getLong(weight)).sum());
        BigInteger limit = limit(aggregate);
        AggregateExpression adding = adding(aggregate);
        if (largestOfType(argument(adding).dataType()).multiply(rows).compareTo(limit) < 0) return true;
        return largest(adding, input, keys).multiply(rows).compareTo(limit) < 0;
    }

    /** Returns the bound below which the absolute value of a sum must stay; unscaled for decimals, null if nothing is added up. */
    static BigInteger limit(AggregateExpression aggregate) {
        if (!isSum(aggregate.aggregateFunction())) return null;
        boolean average = aggregate.aggregateFunction() instanceof Average;
        if (argument(adding(aggregate)).dataType() instanceof DecimalType type) {
            return BigInteger.TEN.pow(Math.min(DecimalType.MAX_PRECISION(), type.precision() + 10));
        }
        return BigInteger.TWO.pow(average ? DOUBLE_BITS : LONG_BITS);
    }

    private static BigInteger largestOfType(DataType type) {
        return type instanceof DecimalType decimal
                ? BigInteger.TEN.pow(decimal.precision()) : BigInteger.TWO.pow(INTEGER_BITS.get(type));
    }

    /** Returns the largest absolute value that is added up; unscaled for decimals. */
    private static BigInteger largest(AggregateExpression aggregate, List<Attribute> input, List<InternalRow> keys) {
        Expression argument = Expressions.bound(argument(aggregate), input);
        Expression filter = aggregate.filter().isEmpty() ? null : Expressions.bound(aggregate.filter().get(), input);
        BigInteger largest = BigInteger.ZERO;
        for (InternalRow key : keys) {
            if (filter != null && !Boolean.TRUE.equals(filter.eval(key))) continue;
            Object value = argument.eval(key);
            if (value != null) largest = largest.max(unscaled(value).abs());
        }
        return largest;
    }

    /** Returns a number as an integer, without the decimal point. */
    static BigInteger unscaled(Object value) {
        return value instanceof Decimal decimal
                ? decimal.toJavaBigDecimal().unscaledValue() : BigInteger.valueOf(((Number) value).longValue());
    }
}
