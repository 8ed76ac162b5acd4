package hive_bitmap.catalyst.queries;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import hive_bitmap.catalyst.lake.IcebergTables;
import hive_bitmap.catalyst.python.Settings;
import hive_bitmap.catalyst.spark.Allowlist;
import hive_bitmap.catalyst.spark.AnswerSize;
import hive_bitmap.catalyst.spark.ArrowRows;
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
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import scala.Option;

/**
 * Computes aggregations over one scan from the distinct keys of its rows and how often each key occurs (its weight), if
 * {@link Allowlist} and {@link KeyAggregates} say that this gives the same. Aggregates over different columns are computed
 * from different keys, each from those of its own columns and the grouping's; their results are joined by group.
 */
public final class Aggregates {
    private static final String WEIGHT = "hive_bitmap_weight";

    private Aggregates() {}

    /**
     * Writes the aggregation of a scan to the question: {@code key_sets}, the sets of columns whose keys have to be counted;
     * {@code extremes}, the columns that are such a set of which only the smallest and the largest key have to be known; or
     * {@code why} keys and weights are not enough.
     */
    static void describe(Scan scan, ObjectNode to) {
        try {
            Weighted weighted = Weighted.of(scan);
            ArrayNode keySets = to.putArray("key_sets");
            for (Part part : weighted.parts) {
                ArrayNode columns = keySets.addArray();
                for (Attribute key : part.keys) columns.add(key.name());
            }
            ArrayNode extremes = JsonNodeFactory.instance.arrayNode();
            for (Part part : weighted.parts) {
                if (weighted.grouping.isEmpty() && part.needsExtremes()) extremes.add(part.keys.get(0).name());
            }
            if (!extremes.isEmpty()) to.set("extremes", extremes);
        } catch (NotFromKeys e) {
            to.put("why", e.getMessage());
        }
    }

    /**
     * Whether Iceberg answers the aggregation over a scan from what it knows of whole files, if no row of them is deleted: one group of
     * all rows, and nothing but numbers of values and the least and greatest of them.
     */
    public static boolean isIcebergs(Scan scan) {
        if (!IcebergTables.isTable(scan.relation) || scan.aggregate == null || scan.existence != null) return false;
        if (!scan.conjuncts.isEmpty() || !scan.runtimeFilters.isEmpty()) return false;
        if (!Scala.list(scan.aggregate.groupingExpressions()).isEmpty()) return false;
        List<AggregateExpression> found = new ArrayList<>();
        for (NamedExpression one : Scala.list(scan.aggregate.aggregateExpressions())) DriverAggregation.addAggregates((Expression) one, found);
        return found.stream().allMatch(one -> !one.isDistinct() && one.filter().isEmpty()
                && (one.aggregateFunction() instanceof Count || one.aggregateFunction() instanceof Min
                || one.aggregateFunction() instanceof Max));
    }

    /** Returns the sets of columns whose keys have to be counted; null if there is no aggregation, or counts do not answer it. */
    public static List<List<String>> keySets(Scan scan) {
        if (scan.aggregate == null) return null;
        try {
            return Weighted.of(scan).parts.stream().map(part -> part.keys.stream().map(Attribute::name).toList()).toList();
        } catch (NotFromKeys e) {
            return null;
        }
    }

    /** An aggregation cannot be computed from keys and weights. */
    private static final class NotFromKeys extends RuntimeException {
        NotFromKeys(String reason) {
            super(reason, null, false, false);
        }
    }

    /** Aggregates that are computed from the same keys, and the columns of these keys. */
    private record Part(List<Attribute> keys, List<AggregateExpression> aggregates) {
        /** Whether the smallest key, the largest and the number of rows are enough, if nothing is grouped. */
        boolean needsExtremes() {
            return keys.size() == 1 && aggregates.stream().allMatch(one -> KeyAggregates.needsExtremes(one, keys.get(0)));
        }
    }

    /** An aggregation over a scan, with aliases of the projections in between replaced by the scan's own columns. */
    static final class Weighted {
        private final Scan scan;
        private final List<Expression> grouping;
        private final List<NamedExpression> results;
        final List<Part> parts;

        private Weighted(Scan scan, List<Expression> grouping, List<NamedExpression> results) {
            this.scan = scan;
            this.grouping = grouping;
            this.results = results;
            this.parts = parts(scan.all());
        }

        /** Returns the aggregation of a scan. Throws NotFromKeys if it cannot be computed from keys. */
        static Weighted of(Scan scan) {
            Map<ExprId, Expression> aliases = aliases(scan.projections);
            List<Expression> grouping = new ArrayList<>();
            for (Expression one : Scala.list(scan.aggregate.groupingExpressions())) grouping.add(inlined(one, aliases));
            List<NamedExpression> results = new ArrayList<>();
            for (NamedExpression one : Scala.list(scan.aggregate.aggregateExpressions())) {
                Expression found = inlined((Expression) one, aliases);
                results.add(found instanceof NamedExpression named && named.exprId().equals(one.exprId())
                        ? named : Expressions.alias(found, one));
            }
            return new Weighted(scan, grouping, results);
        }

        private List<Part> parts(List<Attribute> columns) {
            Set<String> grouped = new LinkedHashSet<>();
            for (Expression one : grouping) {
                require(Allowlist.refusalAsKey(one));
                addColumns(one, columns, grouped);
            }
            for (NamedExpression one : results) require(resultRefusal((Expression) one));
            List<AggregateExpression> aggregates = new ArrayList<>();
            for (NamedExpression one : results) DriverAggregation.addAggregates((Expression) one, aggregates);
            Map<AggregateExpression, Set<String>> needed = new LinkedHashMap<>();
            for (AggregateExpression one : aggregates) {
                Set<String> mine = new LinkedHashSet<>(grouped);
                addColumns(one, columns, mine);
                require(KeyAggregates.refusal(one));
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

        /** Returns why a result must not be computed from groups and aggregates; null if it may be. */
        private String resultRefusal(Expression result) {
            if (result instanceof AggregateExpression) return null;
            if (grouping.stream().anyMatch(one -> one.canonicalized().equals(result.canonicalized()))) return null;
            return Allowlist.refusal(result, this::resultRefusal);
        }

        /**
         * Computes the aggregation from Python's counts of the keys; null if Python has none, if a sum of them may not be that
         * of the rows, or if the table was written in this session since the query was planned: Spark, too, decides when it
         * first executes a plan which files it reads. {@code id} is that of the answer in Python.
         */
        List<InternalRow> rows(SparkSession session, String id) {
            if (scan.listing() != null && scan.listing().isOutdated()) return null;
            Counting counting = new Counting(session, scan, id);
            List<Integer> unknown = counting.ask();
            if (unknown == null) return null;
            List<List<InternalRow>> found = new ArrayList<>();
            for (int at = 0; at < parts.size(); at++) {
                Part part = parts.get(at);
                KeyCounts keys = keyed(session, part, counting.parts.get(at), unknown);
                List<Attribute> input = Scala.list(keys.output());
                if (!part.aggregates.stream().allMatch(one -> KeyAggregates.isExact(one, input, part.keys.size(), keys.rows()))) {
                    return null;
                }
                found.add(aggregated(session, part, keys));
            }
            List<Attribute> output = new ArrayList<>(groupOutput());
            for (Part part : parts) output.addAll(outputs(part));
            return projected(merged(found), output);
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
                rows.addAll(SideQuery.rows(session, rest, settings().answerBytes()));
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
            for (AggregateExpression one : part.aggregates) aggregates.add(KeyAggregates.overKeys(one, weight));
            if (counts.rows().size() <= DriverAggregation.MAX_ROWS && DriverAggregation.computes(grouping, aggregates)) {
                return new DriverAggregation(input, grouping, aggregates).of(counts.rows(), settings().resultBytes());
            }
            List<NamedExpression> results = new ArrayList<>();
            for (Expression one : grouping) results.add(Expressions.alias(one, "g" + results.size()));
            for (Expression one : aggregates) results.add(Expressions.alias(one, "a" + results.size()));
            LogicalPlan plan = new Aggregate(Scala.seq(grouping), Scala.seq(results), counts, Option.empty());
            return SideQuery.rows(session, plan, settings().resultBytes());
        }

        private static Settings settings() {
            return Settings.of(org.apache.spark.sql.internal.SQLConf.get());
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
            AnswerSize size = new AnswerSize(settings().resultBytes());
            for (InternalRow row : rows) {
                UnsafeRow result = projection.apply(row).copy();
                size.add(result);
                found.add(result);
            }
            return found;
        }
    }

    /** Returns the aliases of the projections between an aggregation and its scan, over the scan's own columns. */
    private static Map<ExprId, Expression> aliases(List<Project> projections) {
        Map<ExprId, Expression> found = new HashMap<>();
        for (int at = projections.size() - 1; at >= 0; at--) { // the lowest first
            for (NamedExpression one : Scala.list(projections.get(at).projectList())) {
                if (!(one instanceof Alias alias)) continue;
                Expression below = inlined(alias.child(), found);
                require(Allowlist.refusalAsArgument(below));
                found.put(alias.exprId(), below);
            }
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

    private static void require(String refusal) {
        if (refusal != null) throw new NotFromKeys(refusal);
    }
}
