package hive_bitmap.catalyst.queries;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import hive_bitmap.catalyst.python.PythonCalls;
import hive_bitmap.catalyst.python.Reports;
import hive_bitmap.catalyst.python.Settings;
import hive_bitmap.catalyst.spark.ArrowRows;
import hive_bitmap.catalyst.spark.Conditions;
import hive_bitmap.catalyst.spark.Expressions;
import hive_bitmap.catalyst.spark.KeyCounts;
import hive_bitmap.catalyst.spark.Scala;
import hive_bitmap.catalyst.spark.SideQuery;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.QueryContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.DecimalDivideWithOverflowCheck;
import org.apache.spark.sql.catalyst.expressions.Divide;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Multiply;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Average;
import org.apache.spark.sql.catalyst.expressions.aggregate.Complete$;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import scala.Option;

/**
 * Computes aggregations over one scan from the distinct keys of its rows and how often each key occurs (its weight).
 *
 * <p>{@code count(x)} is the sum of the weights of the keys whose {@code x} is not NULL, {@code sum(x)} that of
 * {@code x * weight}; MIN, MAX and DISTINCT aggregates do not depend on the weights. Aggregates over different columns are
 * computed from different keys, each from those of its own columns and the grouping's; their results are joined by group.
 */
final class Aggregates {
    private static final List<DataType> INTEGERS =
            List.of(DataTypes.ByteType, DataTypes.ShortType, DataTypes.IntegerType, DataTypes.LongType);
    private static final int MAX_DIGITS = 38;
    private static final String WEIGHT = "hive_bitmap_weight";

    private Aggregates() {}

    /**
     * Writes the aggregation of a scan to the question: {@code key_sets}, the sets of columns whose keys have to be counted,
     * and {@code averaged}, the integer columns that it averages; or {@code why} keys and weights are not enough.
     */
    static void describe(Scan scan, ObjectNode to) {
        try {
            Weighted weighted = Weighted.of(scan);
            ArrayNode keySets = to.putArray("key_sets");
            for (Part part : weighted.parts) {
                ArrayNode columns = keySets.addArray();
                for (Attribute key : part.keys) columns.add(key.name());
            }
            ArrayNode averaged = to.putArray("averaged");
            for (String column : weighted.averaged) averaged.add(column);
        } catch (NotFromKeys e) {
            to.put("why", e.getMessage());
        }
    }

    /** An aggregation cannot be computed from keys and weights. */
    private static final class NotFromKeys extends RuntimeException {
        NotFromKeys(String reason) {
            super(reason, null, false, false);
        }
    }

    /** Aggregates that are computed from the same keys, and the columns of these keys. */
    private record Part(List<Attribute> keys, List<AggregateExpression> aggregates) {}

    /** An aggregation over a scan, with aliases of the projections in between replaced by the scan's own columns. */
    static final class Weighted {
        private final Scan scan;
        private final List<Expression> grouping;
        private final List<NamedExpression> results;
        final List<Part> parts;
        final Set<String> averaged = new LinkedHashSet<>();

        private Weighted(Scan scan, List<Expression> grouping, List<NamedExpression> results) {
            this.scan = scan;
            this.grouping = grouping;
            this.results = results;
            this.parts = parts(scan.all());
        }

        static Weighted of(Scan scan) {
            Aggregate aggregate = scan.aggregate;
            Map<ExprId, Expression> aliases = aliases(aggregate.child());
            List<Expression> grouping = new ArrayList<>();
            for (Expression one : Scala.list(aggregate.groupingExpressions())) grouping.add(inlined(one, aliases));
            List<NamedExpression> results = new ArrayList<>();
            for (NamedExpression one : Scala.list(aggregate.aggregateExpressions())) {
                Expression found = inlined((Expression) one, aliases);
                results.add(found instanceof NamedExpression named && named.exprId().equals(one.exprId())
                        ? named : Expressions.alias(found, one));
            }
            return new Weighted(scan, grouping, results);
        }

        private List<Part> parts(List<Attribute> columns) {
            Set<String> grouped = new LinkedHashSet<>();
            for (Expression one : grouping) addColumns(one, columns, grouped);
            for (NamedExpression one : results) requireKnown((Expression) one);
            List<AggregateExpression> aggregates = new ArrayList<>();
            for (NamedExpression one : results) DriverAggregation.addAggregates((Expression) one, aggregates);
            Map<AggregateExpression, Set<String>> needed = new LinkedHashMap<>();
            for (AggregateExpression one : aggregates) {
                Set<String> mine = new LinkedHashSet<>(grouped);
                addColumns(one, columns, mine);
                requireCounted(one);
                needed.put(one, mine);
            }
            List<Set<String>> sets = new ArrayList<>(new LinkedHashSet<>(needed.values()));
            if (sets.isEmpty()) sets.add(grouped);
            sets.removeIf(set -> sets.stream().anyMatch(other -> other != set && other.size() > set.size() && other.containsAll(set)));
            List<Part> found = new ArrayList<>();
            for (Set<String> set : sets) {
                List<AggregateExpression> mine = new ArrayList<>();
                needed.forEach((one, columnsOfOne) -> {
                    boolean first = sets.stream().filter(other -> other.containsAll(columnsOfOne)).findFirst().get() == set;
                    if (first) mine.add(one);
                });
                found.add(new Part(columns.stream().filter(column -> set.contains(column.name())).toList(), mine));
            }
            return found;
        }

        private void requireCounted(AggregateExpression one) {
            AggregateFunction function = one.aggregateFunction();
            if (function instanceof Count || (function instanceof Min || function instanceof Max) && !isFloat(function)) return;
            if (!(function instanceof Sum || function instanceof Average)) {
                throw new NotFromKeys(function.prettyName() + " needs the rows");
            }
            Expression argument = Scala.list(function.children()).get(0);
            DataType type = argument.dataType();
            if (!INTEGERS.contains(type) && !(type instanceof DecimalType)) {
                throw new NotFromKeys("a " + function.prettyName() + " of " + type.sql() + " depends on the order of the rows");
            }
            if (function instanceof Average && INTEGERS.contains(type)) {
                if (!(argument instanceof Attribute column)) throw new NotFromKeys("a mean of an expression needs the rows");
                averaged.add(column.name());
            }
            if (type instanceof DecimalType decimal && decimal.precision() + 18 > MAX_DIGITS) {
                throw new NotFromKeys("a sum of " + type.sql() + " may be more than is exact");
            }
        }

        private static boolean isFloat(AggregateFunction function) {
            return function.dataType().equals(DataTypes.FloatType) || function.dataType().equals(DataTypes.DoubleType);
        }

        /**
         * Computes the aggregation from Python's counts of the keys; if it has none, Spark executes {@code original}, the
         * aggregation as it is in the query. {@code id} is that of the answer in Python.
         */
        List<InternalRow> rows(SparkSession session, String id, LogicalPlan original) {
            Counting counting = new Counting(session, scan, id);
            List<Integer> unknown = unknown(session, counting);
            if (unknown == null) return SideQuery.rows(session, original);
            List<List<InternalRow>> found = new ArrayList<>();
            for (int at = 0; at < parts.size(); at++) {
                KeyCounts keys = keyed(session, parts.get(at), counting.parts.get(at), unknown);
                found.add(aggregated(session, parts.get(at), keys));
            }
            List<Attribute> output = new ArrayList<>(groupOutput());
            for (Part part : parts) output.addAll(outputs(part));
            return projected(merged(found), output);
        }

        /** Has Python count the keys; returns the files that Spark has to count itself, null if it has to count all. */
        private static List<Integer> unknown(SparkSession session, Counting counting) {
            try {
                return Counting.unknown((String) PythonCalls.call(session, counting).get());
            } catch (java.util.concurrent.ExecutionException e) {
                if (Settings.of(org.apache.spark.sql.internal.SQLConf.get()).strict()) throw new IllegalStateException(e.getCause());
                Reports.failed(e.getCause());
                return null;
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException("interrupted", e);
            } catch (java.util.concurrent.RejectedExecutionException | IllegalStateException e) {
                Reports.failed(e);
                return null;
            }
        }

        /** Returns the counts of a part as a leaf with the keys' expression ids; Spark counts the {@code unknown} files. */
        private KeyCounts keyed(SparkSession session, Part part, ArrowRows counts, List<Integer> unknown) {
            List<Attribute> output = new ArrayList<>();
            List<DataType> found = counts.types();
            for (Attribute key : part.keys) output.add(key.withNullability(true));
            output.add(Expressions.attribute(WEIGHT, DataTypes.LongType, false));
            for (int at = 0; at < output.size(); at++) {
                if (!found.get(at).equals(output.get(at).dataType())) {
                    throw new IllegalStateException("the counts of " + output.get(at).name() + " are not of the column's type");
                }
            }
            List<InternalRow> rows = new ArrayList<>(counts.rows);
            if (!unknown.isEmpty()) {
                LogicalPlan rest = countedBySpark(part, NarrowedRelations.restrictedTo(scan, new LinkedHashSet<>(unknown)));
                rows.addAll(SideQuery.rows(session, rest));
            }
            return new KeyCounts(Scala.seq(output), rows);
        }

        /** Returns the plan by which Spark counts the keys of a part in a relation, under the scan's condition. */
        private LogicalPlan countedBySpark(Part part, LogicalPlan relation) {
            LogicalPlan rows = relation;
            for (Expression one : scan.conjuncts) rows = new Filter(one, rows);
            List<NamedExpression> results = new ArrayList<>(part.keys);
            results.add(Expressions.alias(Expressions.countAll(), WEIGHT));
            return new Aggregate(Scala.seq(part.keys), Scala.seq(results), rows, Option.empty());
        }

        /** Computes rows of the grouping and the aggregates of a part, without a Spark job if there are few keys. */
        private List<InternalRow> aggregated(SparkSession session, Part part, KeyCounts counts) {
            List<Attribute> input = new ArrayList<>(Scala.list(counts.output()));
            Attribute weight = input.get(part.keys.size());
            List<Expression> aggregates = new ArrayList<>();
            for (AggregateExpression one : part.aggregates) aggregates.add(weighted(one, weight));
            if (counts.rows().size() <= DriverAggregation.MAX_ROWS && DriverAggregation.computes(aggregates)) {
                return new DriverAggregation(input, grouping, aggregates).of(counts.rows());
            }
            List<NamedExpression> results = new ArrayList<>();
            for (Expression one : grouping) results.add(Expressions.alias(one, "g" + results.size()));
            for (Expression one : aggregates) results.add(Expressions.alias(one, "a" + results.size()));
            LogicalPlan plan = new Aggregate(Scala.seq(grouping), Scala.seq(results), counts, Option.empty());
            return SideQuery.rows(session, plan);
        }

        private List<Attribute> groupOutput() {
            List<Attribute> found = new ArrayList<>();
            for (Expression one : grouping) found.add(Expressions.attribute("", one.dataType(), true));
            return found;
        }

        private static List<Attribute> outputs(Part part) {
            List<Attribute> found = new ArrayList<>();
            for (AggregateExpression one : part.aggregates) found.add(Expressions.attribute("", one.dataType(), true));
            return found;
        }

        /** Joins the rows of all parts by group. */
        private List<InternalRow> merged(List<List<InternalRow>> found) {
            if (found.size() == 1) return found.get(0);
            List<Attribute> groups = groupOutput();
            UnsafeProjection key = UnsafeProjection.create(Scala.<Expression>seq(new ArrayList<Expression>(groups)), Scala.seq(groups));
            int width = groups.size() + parts.stream().mapToInt(part -> part.aggregates.size()).sum();
            Map<Object, Object[]> rows = new LinkedHashMap<>();
            int start = groups.size();
            for (int at = 0; at < parts.size(); at++) {
                List<Attribute> columns = new ArrayList<>(groups);
                columns.addAll(outputs(parts.get(at)));
                for (InternalRow row : found.get(at)) {
                    Object[] values = rows.computeIfAbsent(key.apply(row).copy(), missing -> new Object[width]);
                    for (int column = 0; column < columns.size(); column++) {
                        Object value = row.isNullAt(column) ? null : row.get(column, columns.get(column).dataType());
                        values[column < groups.size() ? column : start + column - groups.size()] = value;
                    }
                }
                start += parts.get(at).aggregates.size();
            }
            List<InternalRow> merged = new ArrayList<>();
            for (Object[] values : rows.values()) {
                merged.add(new org.apache.spark.sql.catalyst.expressions.GenericInternalRow(values));
            }
            return merged;
        }

        /** Computes the output of the aggregation from rows of grouping and aggregates. */
        private List<InternalRow> projected(List<InternalRow> rows, List<Attribute> output) {
            Map<Expression, Attribute> places = new HashMap<>();
            for (int at = 0; at < grouping.size(); at++) places.put(grouping.get(at).canonicalized(), output.get(at));
            int next = grouping.size();
            for (Part part : parts) {
                for (AggregateExpression one : part.aggregates) places.put(one.canonicalized(), output.get(next++));
            }
            List<NamedExpression> wanted = new ArrayList<>();
            for (NamedExpression one : results) {
                Expression over = (Expression) ((Expression) one).transformDown(
                        Scala.replacing(node -> node == one && !(node instanceof Attribute) ? null : places.get(node.canonicalized())));
                wanted.add(over instanceof Alias named ? named : Expressions.alias(over, one));
            }
            UnsafeProjection projection = UnsafeProjection.create(
                    Scala.<Expression>seq(wanted.stream().map(one -> ((Alias) one).child()).toList()), Scala.seq(output));
            List<InternalRow> found = new ArrayList<>();
            for (InternalRow row : rows) found.add(projection.apply(row).copy());
            return found;
        }
    }

    /** Rewrites an aggregate over rows to one over keys and weights. */
    private static Expression weighted(AggregateExpression one, Expression weight) {
        AggregateFunction function = one.aggregateFunction();
        if (one.isDistinct() || function instanceof Min || function instanceof Max) return one;
        Expression rows = aggregate(new Sum(present(Scala.list(function.children()), weight)), one);
        if (function instanceof Count) return new Coalesce(Scala.seq(List.of(rows, new Literal(0L, DataTypes.LongType))));
        Expression argument = Scala.list(function.children()).get(0);
        DataType type = argument.dataType();
        int scale = type instanceof DecimalType decimal ? decimal.scale() : 0;
        int precision = type instanceof DecimalType decimal ? decimal.precision() : 19;
        Expression product = new Multiply(cast(argument, new DecimalType(precision, scale)), cast(weight, new DecimalType(18, 0)));
        Expression total = aggregate(new Sum(product), one);
        boolean ansi = org.apache.spark.sql.internal.SQLConf.get().ansiEnabled();
        if (function instanceof Sum) return cast(total, function.dataType());
        if (!(type instanceof DecimalType)) return new Divide(cast(total, DataTypes.DoubleType), cast(rows, DataTypes.DoubleType));
        DecimalType summed = new DecimalType(Math.min(MAX_DIGITS, precision + 10), scale);
        Expression zero = new Literal(0L, DataTypes.LongType);
        Expression none = new EqualTo(new Coalesce(Scala.seq(List.of(rows, zero))), zero);
        Expression mean = new DecimalDivideWithOverflowCheck(
                cast(total, summed), cast(rows, new DecimalType(20, 0)), (DecimalType) function.dataType(),
                (QueryContext) null, !ansi);
        return new If(none, new Literal(null, function.dataType()), mean);
    }

    /** Returns the expression of a key's weight, which is 0 if one of the arguments is NULL. */
    private static Expression present(List<Expression> arguments, Expression weight) {
        Expression missing = null;
        for (Expression one : arguments) {
            if (one instanceof Literal literal && literal.value() != null) continue;
            missing = missing == null ? new IsNull(one) : new Or(missing, new IsNull(one));
        }
        return missing == null ? weight : new If(missing, new Literal(0L, DataTypes.LongType), weight);
    }

    private static AggregateExpression aggregate(AggregateFunction function, AggregateExpression like) {
        return new AggregateExpression(function, Complete$.MODULE$, false, like.filter(), NamedExpression$.MODULE$.newExprId());
    }

    private static Expression cast(Expression value, DataType type) {
        return value.dataType().equals(type) ? value : new Cast(value, type, Option.empty());
    }

    /** Returns the aliases of the projections between an aggregation and its scan, over the scan's own columns. */
    private static Map<ExprId, Expression> aliases(LogicalPlan plan) {
        Map<ExprId, Expression> found = new HashMap<>();
        if (plan instanceof Filter filter) return aliases(filter.child());
        if (!(plan instanceof Project project)) return found;
        Map<ExprId, Expression> below = aliases(project.child());
        found.putAll(below);
        for (NamedExpression one : Scala.list(project.projectList())) {
            if (one instanceof Alias alias) found.put(alias.exprId(), inlined(alias.child(), below));
        }
        return found;
    }

    private static Expression inlined(Expression expression, Map<ExprId, Expression> aliases) {
        if (aliases.isEmpty()) return expression;
        return (Expression) expression.transform(Scala.replacing(
                one -> one instanceof Attribute attribute ? aliases.get(attribute.exprId()) : null));
    }

    private static void addColumns(Expression expression, List<Attribute> columns, Set<String> found) {
        for (Attribute used : Scala.list(expression.references().toSeq())) {
            Attribute column = columns.stream().filter(one -> one.exprId().equals(used.exprId())).findFirst()
                    .orElseThrow(() -> new NotFromKeys(used.name() + " is no column of the table"));
            found.add(column.name());
        }
    }

    private static void requireKnown(Expression expression) {
        if (!expression.deterministic()) throw new NotFromKeys(Conditions.sql(expression) + " is not deterministic");
        if (Conditions.isOpaque(expression)) throw new NotFromKeys("it holds a subquery or a Python function");
    }
}
