package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.spark.Expressions;
import hive_bitmap.catalyst.spark.Scala;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Average;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;

/**
 * A column that is aggregated from partial aggregates. For each key these are the column's exact sum, count, minimum and maximum,
 * as far as they are needed. Spark's own functions aggregate them over the keys of a group.
 */
final class Measure {
    private static final String SUM = "sum";
    private static final String COUNT = "count";
    private static final String MIN = "min";
    private static final String MAX = "max";
    private static final Set<DataType> INTEGERS = Set.of(
            DataTypes.ByteType, DataTypes.ShortType, DataTypes.IntegerType, DataTypes.LongType);

    final Attribute column;
    /** The columns of the partial aggregates, by function, in the order in which Python sends them. */
    private final Map<String, Attribute> partials = new LinkedHashMap<>();

    Measure(Attribute column, List<String> functions) {
        this.column = column;
        for (String function : functions) {
            partials.put(function, Expressions.attribute(function + " of " + column.name(), typeOf(function), !function.equals(COUNT)));
        }
    }

    private DataType typeOf(String function) {
        if (function.equals(COUNT)) return DataTypes.LongType;
        return function.equals(SUM) ? sumType() : column.dataType();
    }

    private DecimalType sumType() {
        return new DecimalType(DecimalType.MAX_PRECISION(), column.dataType() instanceof DecimalType type ? type.scale() : 0);
    }

    /**
     * Returns the column that an aggregate is over, if partial aggregates may answer it; null if not, or if it is over an
     * expression.
     */
    static Attribute columnOf(AggregateExpression aggregate) {
        List<Expression> arguments = Scala.list(aggregate.aggregateFunction().children());
        if (aggregate.isDistinct() || arguments.size() != 1 || !(arguments.get(0) instanceof Attribute column)) return null;
        return functionsOf(aggregate, column.dataType()).isEmpty() ? null : column;
    }

    /** Returns the partial aggregates that an aggregate over a column of this type needs; none if they do not answer it. */
    static List<String> functionsOf(AggregateExpression aggregate, DataType type) {
        Class<?> function = aggregate.aggregateFunction().getClass();
        boolean isSummed = INTEGERS.contains(type) || type instanceof DecimalType;
        if (function == Count.class) return List.of(COUNT);
        if (function == Sum.class || function == Average.class) return isSummed ? List.of(SUM, COUNT, MIN, MAX) : List.of();
        if (!isSummed && !type.equals(DataTypes.DateType)) return List.of();
        return function == Min.class ? List.of(COUNT, MIN) : function == Max.class ? List.of(COUNT, MAX) : List.of();
    }

    List<Attribute> attributes() {
        return new ArrayList<>(partials.values());
    }

    /**
     * Returns the aggregates by which Spark computes the partial aggregates from the rows of files. None of them can overflow
     * unnoticed.
     */
    List<Expression> computed() {
        List<Expression> expressions = new ArrayList<>();
        for (String function : partials.keySet()) {
            AggregateFunction computing = switch (function) {
                case SUM -> new Sum(column.dataType().equals(DataTypes.LongType) ? Expressions.cast(column, sumType()) : column);
                case COUNT -> new Count(Scala.seq(List.<Expression>of(column)));
                case MIN -> new Min(column);
                case MAX -> new Max(column);
                default -> throw new IllegalStateException("not a partial aggregate: " + function);
            };
            Expression computed = Expressions.aggregate(computing);
            expressions.add(function.equals(SUM) ? Expressions.cast(computed, sumType()) : computed);
        }
        return expressions;
    }

    /** Rewrites an aggregate over rows to one over partial aggregates. */
    Expression over(AggregateExpression aggregate) {
        AggregateFunction function = aggregate.aggregateFunction();
        if (function instanceof Min) return Expressions.aggregate(new Min(partials.get(MIN)), aggregate);
        if (function instanceof Max) return Expressions.aggregate(new Max(partials.get(MAX)), aggregate);
        Expression rows = new Coalesce(Scala.seq(List.of(
                Expressions.aggregate(new Sum(partials.get(COUNT)), aggregate), new Literal(0L, DataTypes.LongType))));
        if (function instanceof Count) return rows;
        if (function instanceof Average) {
            return KeyAggregates.mean(aggregate, Expressions.aggregate(new Sum(partials.get(SUM)), aggregate), rows);
        }
        AggregateFunction total = (AggregateFunction) function.withNewChildren(
                Scala.seq(List.of(partials.get(SUM))));
        return Expressions.cast(Expressions.aggregate(total, aggregate), function.dataType());
    }

    /**
     * Returns a bound for the absolute value of the sum of any of a key's values, as an integer without the decimal point. {@code
     * input} are the columns of the row {@code key}. Null if there is no sum.
     */
    BigInteger bound(InternalRow key, List<Attribute> input) {
        int position = input.indexOf(partials.get(SUM));
        long values = key.getLong(input.indexOf(partials.get(COUNT)));
        if (values == 0) return BigInteger.ZERO;
        if (key.isNullAt(position)) return null;
        BigInteger lowest = KeyAggregates.unscaled(key.get(input.indexOf(partials.get(MIN)), column.dataType()));
        BigInteger largest = KeyAggregates.unscaled(key.get(input.indexOf(partials.get(MAX)), column.dataType()));
        if (lowest.signum() >= 0 || largest.signum() <= 0) return KeyAggregates.unscaled(key.get(position, sumType())).abs();
        return lowest.abs().max(largest.abs()).multiply(BigInteger.valueOf(values));
    }
}
