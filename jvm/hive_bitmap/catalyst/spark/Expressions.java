package hive_bitmap.catalyst.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Complete$;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import scala.Option;
import scala.collection.immutable.Seq;

/** Constructs Spark's expressions with the default arguments of Scala, and writes them as text. */
public final class Expressions {
    private static final int SHOWN_VALUES = 50;

    private Expressions() {}

    /** Returns a new attribute with a new expression id. */
    public static AttributeReference attribute(String name, DataType type, boolean nullable) {
        return new AttributeReference(name, type, nullable, Metadata.empty(), NamedExpression$.MODULE$.newExprId(), noNames());
    }

    /** Returns an expression under a name, with a new expression id. */
    public static Alias alias(Expression expression, String name) {
        return new Alias(expression, name, NamedExpression$.MODULE$.newExprId(), noNames(), Option.empty(), noNames());
    }

    /** Returns an expression under the name and expression id of another expression. */
    public static Alias alias(Expression expression, NamedExpression like) {
        return new Alias(expression, like.name(), like.exprId(), like.qualifier(), Option.apply(like.metadata()), noNames());
    }

    /** Returns the aggregates in the results of an aggregation, each as often as it occurs. */
    public static List<AggregateExpression> aggregates(Aggregate aggregation) {
        List<AggregateExpression> aggregates = new ArrayList<>();
        for (NamedExpression result : Scala.list(aggregation.aggregateExpressions())) {
            for (Expression node : Scala.list(((Expression) result).collect(Scala.replacing(node -> node instanceof AggregateExpression ? node : null)))) {
                aggregates.add((AggregateExpression) node);
            }
        }
        return aggregates;
    }

    /** Returns the value of a literal of type int; null for any other expression. */
    public static Integer integer(Expression expression) {
        return expression instanceof Literal literal && literal.value() instanceof Integer value ? value : null;
    }

    /** Casts a value to a type, unless it has that type. */
    public static Expression cast(Expression value, DataType type) {
        return value.dataType().equals(type) ? value : new Cast(value, type, Option.empty());
    }

    /** Binds an expression to rows with these columns. */
    public static Expression bound(Expression expression, List<Attribute> columns) {
        return (Expression) expression.transform(Scala.replacing(node -> {
            for (int at = 0; at < columns.size(); at++) {
                if (node instanceof Attribute used && used.exprId().equals(columns.get(at).exprId())) {
                    return new BoundReference(at, used.dataType(), used.nullable());
                }
            }
            return null;
        }));
    }

    /** Returns an aggregate with the FILTER of another aggregate. */
    public static AggregateExpression aggregate(AggregateFunction function, AggregateExpression like) {
        return new AggregateExpression(function, Complete$.MODULE$, false, like.filter(), NamedExpression$.MODULE$.newExprId());
    }

    /** Returns an aggregate with a FILTER. */
    public static AggregateExpression aggregateWhere(Expression filter, AggregateFunction function) {
        return new AggregateExpression(
                function, Complete$.MODULE$, false, Option.apply(filter), NamedExpression$.MODULE$.newExprId());
    }

    /** Returns an aggregate without FILTER and DISTINCT. */
    public static AggregateExpression aggregate(AggregateFunction function) {
        return new AggregateExpression(function, Complete$.MODULE$, false, Option.empty(), NamedExpression$.MODULE$.newExprId());
    }

    /** Returns {@code count(1)}. */
    public static AggregateExpression countAll() {
        Expression literal = new Literal(1, DataTypes.IntegerType);
        return aggregate(new Count(Scala.seq(List.of(literal))));
    }

    /** Returns a plan that counts the rows of a plan. */
    public static Aggregate countOf(LogicalPlan rows) {
        List<NamedExpression> results = List.of(alias(countAll(), "count"));
        return new Aggregate(Scala.seq(List.of()), Scala.seq(results), rows, Option.empty());
    }

    /** Returns an expression as SQL text for people to read. */
    public static String sql(Expression expression) {
        try {
            return expression.sql();
        } catch (RuntimeException e) {
            return expression.toString(); // some expressions have no SQL form
        }
    }

    /** Returns an expression as {@link #sql}, with long lists of values shortened. */
    public static String shown(Expression expression) {
        return sql((Expression) expression.transform(Scala.replacing(node -> {
            if (node instanceof In in && Scala.size(in.list()) > SHOWN_VALUES) return shortened(in.value(), Scala.list(in.list()), Scala.size(in.list()));
            return node instanceof InSet in && Scala.size(in.hset()) > SHOWN_VALUES ? shortened(in) : null;
        })));
    }

    private static Expression shortened(InSet in) {
        List<Expression> values = new ArrayList<>();
        scala.collection.Iterator<Object> all = in.hset().iterator();
        while (all.hasNext() && values.size() < SHOWN_VALUES) values.add(new Literal(all.next(), in.child().dataType()));
        return shortened(in.child(), values, Scala.size(in.hset()));
    }

    private static Expression shortened(Expression tested, List<Expression> values, int all) {
        List<Expression> shown = new ArrayList<>(values.subList(0, SHOWN_VALUES));
        shown.add(Literal.create(".. " + all + " in all", DataTypes.StringType));
        return new In(tested, Scala.seq(shown));
    }

    private static Seq<String> noNames() {
        return Scala.seq(List.<String>of());
    }
}
