package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.spark.AnswerSize;
import hive_bitmap.catalyst.spark.Allowlist;
import hive_bitmap.catalyst.spark.Expressions;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate;
import org.apache.spark.unsafe.types.UTF8String;

/** Aggregates a few rows in the driver with Spark's own expressions, because a job would take longer. */
final class DriverAggregation {
    static final int MAX_ROWS = 10_000;

    private final List<Attribute> input;
    private final List<Expression> grouping;
    private final List<Expression> results;
    private final List<Function> functions = new ArrayList<>();
    private final List<Attribute> buffers = new ArrayList<>();

    /** {@code results} are expressions over aggregates; {@code grouping} are expressions over the columns of {@code input}. */
    DriverAggregation(List<Attribute> input, List<Expression> grouping, List<Expression> results) {
        this.input = input;
        this.grouping = grouping;
        this.results = results;
        List<AggregateExpression> aggregates = new ArrayList<>();
        for (Expression result : results) addAggregates(result, aggregates);
        for (AggregateExpression aggregate : aggregates) functions.add(new Function(aggregate));
    }

    /**
     * Returns whether rows can be aggregated in the driver. Spark must express the functions by expressions that can be evaluated
     * row by row. For the types of groups and of DISTINCT values, equal values must have equal bytes.
     */
    static boolean computes(List<Expression> grouping, List<Expression> results) {
        List<AggregateExpression> aggregates = new ArrayList<>();
        for (Expression result : results) addAggregates(result, aggregates);
        Stream<Expression> distinct = aggregates.stream().filter(AggregateExpression::isDistinct)
                .flatMap(aggregate -> Scala.list(aggregate.aggregateFunction().children()).stream());
        return aggregates.stream().allMatch(aggregate -> aggregate.aggregateFunction() instanceof DeclarativeAggregate)
                && Stream.concat(grouping.stream(), distinct).allMatch(expression -> Allowlist.isExact(expression.dataType()));
    }

    /** Adds the aggregates of an expression to {@code aggregates}, without duplicates. */
    static void addAggregates(Expression expression, List<AggregateExpression> aggregates) {
        if (expression instanceof AggregateExpression aggregate) {
            if (aggregates.stream().noneMatch(other -> other.canonicalized().equals(aggregate.canonicalized()))) aggregates.add(aggregate);
            return;
        }
        for (Expression child : Scala.list(expression.children())) addAggregates(child, aggregates);
    }

    /**
     * Returns a row for each group: its grouping values, then the results. Without grouping it returns one row, even for no input
     * rows. Throws {@link AnswerSize.TooLarge} if groups and values take more than {@code limit} bytes.
     */
    List<InternalRow> of(List<InternalRow> rows, long limit) {
        AnswerSize size = new AnswerSize(limit);
        Map<InternalRow, Group> groups = new LinkedHashMap<>();
        UnsafeProjection key = UnsafeProjection.create(Scala.seq(grouping), Scala.seq(input));
        if (grouping.isEmpty()) groups.put(key.apply(new GenericInternalRow(new Object[input.size()])).copy(), new Group());
        for (InternalRow row : rows) {
            InternalRow groupKey = key.apply(row);
            Group group = groups.get(groupKey);
            if (group == null) {
                size.add(groupKey);
                groups.put(groupKey.copy(), group = new Group());
            }
            group.add(row, size);
        }
        List<InternalRow> resultRows = new ArrayList<>();
        List<Expression> finished = results.stream().map(this::finished).toList();
        groups.forEach((values, group) -> resultRows.add(group.result(values, finished)));
        return resultRows;
    }

    /** Returns a result as an expression over the aggregation buffers. */
    private Expression finished(Expression result) {
        Expression over = (Expression) result.transform(Scala.replacing(node -> {
            for (Function candidate : functions) {
                if (node instanceof AggregateExpression && node.canonicalized().equals(candidate.aggregate.canonicalized())) {
                    return candidate.function.evaluateExpression();
                }
            }
            return null;
        }));
        return Expressions.bound(over, buffers);
    }

    /** An aggregate, bound to the input rows and to its aggregation buffers. */
    private final class Function {
        private final AggregateExpression aggregate;
        private final DeclarativeAggregate function;
        private final int start = buffers.size();
        private final List<Expression> updates = new ArrayList<>();
        private final Expression filter;
        private final UnsafeProjection arguments;

        Function(AggregateExpression aggregate) {
            this.aggregate = aggregate;
            this.function = (DeclarativeAggregate) aggregate.aggregateFunction();
            List<Attribute> buffersOfFunction = new ArrayList<>(Scala.list(function.aggBufferAttributes()));
            buffers.addAll(buffersOfFunction);
            List<Attribute> columns = new ArrayList<>(buffersOfFunction);
            columns.addAll(input);
            for (Expression update : Scala.list(function.updateExpressions())) updates.add(Expressions.bound(update, columns));
            filter = aggregate.filter().isEmpty() ? null : Expressions.bound(aggregate.filter().get(), input);
            arguments = aggregate.isDistinct()
                    ? UnsafeProjection.create(function.children(), Scala.seq(input)) : null;
        }

        Object[] initial() {
            List<Expression> values = Scala.list(function.initialValues());
            return values.stream().map(value -> value.eval(null)).toArray();
        }
    }

    /** Returns the bytes of the strings and binary values among {@code values}; only these may be large. */
    private static long bytes(Object[] values) {
        long sum = 0;
        for (Object value : values) {
            if (value instanceof UTF8String text) sum += text.numBytes();
            else if (value instanceof byte[] binary) sum += binary.length;
        }
        return sum;
    }

    /** The aggregation buffers of one group. */
    private final class Group {
        private final List<GenericInternalRow> values = new ArrayList<>();
        private final List<Set<InternalRow>> seen = new ArrayList<>();

        Group() {
            for (Function function : functions) {
                values.add(new GenericInternalRow(function.initial()));
                seen.add(new HashSet<>());
            }
        }

        void add(InternalRow row, AnswerSize size) {
            for (int at = 0; at < functions.size(); at++) {
                Function function = functions.get(at);
                if (function.filter != null && !Boolean.TRUE.equals(function.filter.eval(row))) continue;
                if (function.arguments != null && !seen.get(at).add(function.arguments.apply(row).copy())) continue;
                JoinedRow buffersAndRow = new JoinedRow(values.get(at), row);
                Object[] updated = function.updates.stream().map(update -> update.eval(buffersAndRow)).toArray();
                size.addBytes(bytes(updated) - bytes(values.get(at).values()));
                values.set(at, new GenericInternalRow(updated));
            }
        }

        InternalRow result(InternalRow key, List<Expression> finished) {
            Object[] all = new Object[buffers.size()];
            for (int at = 0; at < functions.size(); at++) {
                Object[] buffersOfFunction = values.get(at).values();
                System.arraycopy(buffersOfFunction, 0, all, functions.get(at).start, buffersOfFunction.length);
            }
            InternalRow over = new GenericInternalRow(all);
            Object[] row = new Object[grouping.size() + finished.size()];
            for (int at = 0; at < grouping.size(); at++) {
                row[at] = key.isNullAt(at) ? null : key.get(at, grouping.get(at).dataType());
            }
            for (int at = 0; at < finished.size(); at++) row[grouping.size() + at] = finished.get(at).eval(over);
            return new GenericInternalRow(row);
        }
    }
}
