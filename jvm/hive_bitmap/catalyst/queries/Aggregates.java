package hive_bitmap.catalyst.queries;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import hive_bitmap.catalyst.keys.AggregatedExpressions;
import hive_bitmap.catalyst.keys.KeyExpressions;
import hive_bitmap.catalyst.keys.ReplacedKeys;
import hive_bitmap.catalyst.lake.IcebergTables;
import hive_bitmap.catalyst.python.Settings;
import hive_bitmap.catalyst.python.Verdicts;
import hive_bitmap.catalyst.spark.Allowlist;
import hive_bitmap.catalyst.spark.AnswerSize;
import hive_bitmap.catalyst.spark.ArrowRows;
import hive_bitmap.catalyst.spark.Cases;
import hive_bitmap.catalyst.spark.Expressions;
import hive_bitmap.catalyst.spark.KeyCounts;
import hive_bitmap.catalyst.spark.Scala;
import hive_bitmap.catalyst.spark.SideQuery;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
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
 * Computes aggregations over one scan from distinct keys and weights. The weight of a key is the number of rows with this key.
 * {@link Allowlist} and {@link KeyAggregates} decide whether the result is the same as from rows. Aggregates over different columns
 * are computed from different key sets: each from the keys of its own columns and the grouping columns. The results are joined by
 * group. Aggregates of columns that are not keys are computed from partial aggregates by key ({@link Measure}).
 */
public final class Aggregates {
    private static final String WEIGHT = "hive_bitmap_weight";
    private static final String DISTINCT = "hive_bitmap_distinct";
    private static final ObjectMapper JSON = new ObjectMapper();

    private Aggregates() {}

    /**
     * Writes the aggregation of a scan to the question. {@code key_sets} are the sets of columns to count rows by. Two fields list
     * columns that are a key set of their own: {@code extremes} those whose smallest and largest key are enough, {@code summaries}
     * those whose summary is enough. {@code group_summary} names a column whose summary is enough in each group of another column.
     * {@code top} describes the groups that are needed, if the only key set is a single column. If keys and weights do not answer
     * the aggregation, {@code why} is the reason. {@code sums} names the partial aggregates, and the keys, that would answer it.
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
            ArrayNode summaries = JsonNodeFactory.instance.arrayNode();
            for (Part part : weighted.parts) {
                Attribute column = weighted.summarized(part);
                if (column == null) continue;
                if (weighted.grouping.isEmpty()) summaries.add(column.name());
                else to.putObject("group_summary").put("group", ((Attribute) weighted.grouping.get(0)).name()).put("column", column.name());
            }
            if (!summaries.isEmpty()) to.set("summaries", summaries);
            if (scan.top != null && !scan.top.isBySum() && weighted.groupsAreKeys()) scan.top.writeTo(to.putObject("top"));
        } catch (NotFromKeys e) {
            to.put("why", e.getMessage());
        }
        try {
            Weighted.ofCases(scan, scan.measured()).describeSums(to);
        } catch (NotFromKeys e) {
            return; // partial aggregates do not answer the aggregation either
        }
    }

    /**
     * Returns whether Iceberg itself answers the aggregation over a scan from the statistics of files. It answers COUNT, MIN and
     * MAX over all rows in one group, if no row is deleted.
     */
    public static boolean isIcebergs(Scan scan) {
        if (!IcebergTables.isTable(scan.relation) || scan.aggregate == null || scan.existence != null) return false;
        if (!scan.conjuncts.isEmpty() || !scan.runtimeFilters.isEmpty()) return false;
        if (!Scala.list(scan.aggregate.groupingExpressions()).isEmpty()) return false;
        return Expressions.aggregates(scan.aggregate).stream().allMatch(aggregate -> !aggregate.isDistinct() && aggregate.filter().isEmpty()
                && (aggregate.aggregateFunction() instanceof Count || aggregate.aggregateFunction() instanceof Min
                || aggregate.aggregateFunction() instanceof Max));
    }

    /** Returns the sets of columns to count rows by; null if there is no aggregation, or counts do not answer it. */
    public static List<List<String>> keySets(Scan scan) {
        if (scan.aggregate == null) return null;
        try {
            return Weighted.of(scan).parts.stream().map(part -> part.keys.stream().map(Attribute::name).toList()).toList();
        } catch (NotFromKeys e) {
            return null;
        }
    }

    /** Returns the expressions of the aggregation over a scan, in columns of the scan; none if {@code keySets} is null. */
    public static List<Expression> expressions(Scan scan, List<List<String>> keySets) {
        if (keySets == null) return List.of();
        Weighted weighted = Weighted.ofNothing(scan);
        List<Expression> expressions = new ArrayList<>(weighted.grouping);
        for (NamedExpression result : weighted.results) expressions.add((Expression) result);
        return expressions;
    }

    /**
     * Returns the sums that would answer the aggregation over a scan, as the object that a question has. Null if there is no
     * aggregation, or sums do not answer it.
     */
    public static String sums(Scan scan) {
        if (scan.aggregate == null) return null;
        ObjectNode described = JsonNodeFactory.instance.objectNode();
        try {
            Weighted.ofCases(scan, List.of()).describeSums(described);
        } catch (NotFromKeys e) {
            return null;
        }
        if (!(described.get("sums") instanceof ObjectNode sums)) return null;
        sums.remove("top");
        return sums.toString();
    }

    /** Thrown for an aggregation that cannot be computed from keys and weights. The message says why. */
    private static final class NotFromKeys extends RuntimeException {
        NotFromKeys(String reason) {
            super(reason, null, false, false);
        }
    }

    /** Aggregates that are computed from the same keys: the columns of the keys, and the columns with partial aggregates. */
    private record Part(List<Attribute> keys, List<AggregateExpression> aggregates, List<Measure> measures) {
        /** Returns the measure that answers an aggregate; null if the keys answer it. */
        Measure measureOf(AggregateExpression aggregate) {
            Attribute column = Measure.columnOf(aggregate);
            if (column == null) return null;
            return measures.stream().filter(measure -> measure.column.exprId().equals(column.exprId())).findFirst().orElse(null);
        }

        /**
         * Returns whether the extremes (the smallest key, the largest key and the number of rows) are enough for all aggregates
         * of the part. The caller checks that the aggregation has no grouping.
         */
        boolean needsExtremes() {
            return keys.size() == 1 && aggregates.stream().allMatch(aggregate -> KeyAggregates.needsExtremes(aggregate, keys.get(0)));
        }
    }

    /** An aggregation over a scan, expressed in the scan's own columns: the aliases of projections in between are inlined. */
    static final class Weighted {
        private final Scan scan;
        private final List<Expression> grouping;
        private final List<NamedExpression> results;
        final List<Part> parts;

        private Weighted(Scan scan, List<Expression> grouping, List<NamedExpression> results, List<Part> parts) {
            this.scan = scan;
            this.grouping = grouping;
            this.results = results;
            this.parts = parts;
        }

        /** Returns the aggregation above a scan. Throws NotFromKeys if it cannot be computed from keys. */
        static Weighted of(Scan scan) {
            Weighted weighted = ofNothing(scan);
            return new Weighted(scan, weighted.grouping, weighted.results, weighted.parts(scan.allWithKeys()));
        }

        /**
         * Returns the aggregation above a scan that partial aggregates answer. {@code sums} is an object that Python has written.
         */
        static Weighted ofSums(Scan scan, JsonNode sums) {
            Weighted weighted = ofCases(scan, scan.measured());
            return new Weighted(scan, weighted.grouping, weighted.results, List.of(weighted.summed(sums)));
        }

        /**
         * Returns the aggregation above a scan, without parts, over the columns that stand for {@code measured} expressions, and with
         * FILTER in place of an equivalent CASE.
         */
        private static Weighted ofCases(Scan scan, List<AggregatedExpressions.Measured> measured) {
            Weighted weighted = over(scan, measured);
            List<NamedExpression> results = new ArrayList<>();
            for (NamedExpression result : weighted.results) results.add((NamedExpression) Cases.filtered((Expression) result));
            return new Weighted(scan, weighted.grouping, results, List.of());
        }

        /** Returns the aggregation above a scan, without parts. Throws NotFromKeys if the aliases below it cannot be computed. */
        private static Weighted ofNothing(Scan scan) {
            return over(scan, List.of());
        }

        /** Returns the aggregation above a scan, without parts, over the columns that stand for {@code measured} expressions. */
        private static Weighted over(Scan scan, List<AggregatedExpressions.Measured> measured) {
            Map<ExprId, Expression> aliases = aliases(scan.projections);
            List<Expression> grouping = new ArrayList<>();
            List<KeyExpressions.Key> keys = keysOfRows(scan);
            for (Expression expression : Scala.list(scan.aggregate.groupingExpressions())) {
                grouping.add(ReplacedKeys.in(inlined(expression, aliases), keys, scan.keys()));
            }
            List<NamedExpression> results = new ArrayList<>();
            for (NamedExpression result : Scala.list(scan.aggregate.aggregateExpressions())) {
                Expression argued = AggregatedExpressions.replaced(inlined((Expression) result, aliases), measured);
                Expression expression = ReplacedKeys.in(argued, keys, scan.keys());
                results.add(expression instanceof NamedExpression named && named.exprId().equals(result.exprId())
                        ? named : Expressions.alias(expression, result));
            }
            return new Weighted(scan, grouping, results, List.of());
        }

        /** Returns the keys that the aggregation computes for each row. */
        private static List<KeyExpressions.Key> keysOfRows(Scan scan) {
            Map<ExprId, Expression> aliases = aliases(scan.projections);
            return KeyExpressions.computedAlways(scan.aggregate, expression -> inlined(expression, aliases), scan.keys());
        }

        private List<AggregateExpression> aggregates() {
            List<AggregateExpression> aggregates = new ArrayList<>();
            for (NamedExpression result : results) DriverAggregation.addAggregates((Expression) result, aggregates);
            return aggregates;
        }

        /** Writes the keys and the measures of the aggregation. Throws NotFromKeys if partial aggregates do not answer it. */
        private void describeSums(ObjectNode to) {
            Set<String> keys = new LinkedHashSet<>();
            for (Expression expression : grouping) {
                require(Allowlist.refusalAsKey(expression));
                addColumns(expression, scan.allWithKeys(), keys);
            }
            for (NamedExpression result : results) require(resultRefusal((Expression) result));
            for (AggregateExpression aggregate : aggregates()) {
                if (Measure.columnOf(aggregate) == null) addColumns(aggregate, scan.allWithKeys(), keys);
                if (aggregate.filter().isDefined()) {
                    require(Allowlist.refusal(aggregate.filter().get()));
                    addColumns(aggregate.filter().get(), scan.allWithKeys(), keys);
                }
            }
            Map<String, Set<String>> functions = new LinkedHashMap<>();
            Set<String> onlyMeasured = new LinkedHashSet<>();
            for (AggregateExpression aggregate : aggregates()) {
                Attribute column = Measure.columnOf(aggregate);
                boolean measured = column != null && !keys.contains(column.name());
                String refusal = KeyAggregates.refusal(aggregate);
                if (!measured) {
                    require(refusal);
                    continue;
                }
                addColumns(column, scan.allWithMeasured(), new LinkedHashSet<>());
                if (isMeasured(column)) onlyMeasured.add(column.name());
                functions.computeIfAbsent(column.name(), name -> new LinkedHashSet<>()).addAll(Measure.functionsOf(aggregate, column.dataType()));
                if (refusal != null) onlyMeasured.add(column.name());
            }
            long names = scan.all().stream().map(column -> column.name().toLowerCase(Locale.ROOT)).distinct().count();
            if (functions.isEmpty() || names < scan.all().size()) return; // Python ignores the case of names
            ObjectNode sums = to.putObject("sums");
            keys.forEach(sums.putArray("keys")::add);
            ArrayNode measures = sums.putArray("measures");
            functions.forEach((column, needed) -> {
                ObjectNode measure = measures.addObject().put("column", column).put("may_be_key", !onlyMeasured.contains(column));
                needed.forEach(measure.putArray("functions")::add);
                if (isConditional(column)) measure.put("conditional", true);
            });
            boolean byKey = keys.size() == 1 && grouping.size() == 1 && grouping.get(0) instanceof Attribute key && keys.contains(key.name());
            Attribute sorted = byKey && scan.top != null && scan.top.isBySum() ? summed(results.get(scan.top.sum())) : null;
            boolean needsFew = sorted != null && functions.containsKey(sorted.name());
            if (needsFew && results.stream().allMatch(result -> mayBeLeftOut(result, functions.keySet()))) {
                scan.top.writeTo(sums.putObject("top")).put("sum", sorted.name());
            }
        }

        /** Returns the column that a result sums; null if the result is not the sum of a column. */
        private static Attribute summed(NamedExpression result) {
            boolean isSum = result instanceof Alias alias && alias.child() instanceof AggregateExpression sum && sum.filter().isEmpty();
            return isSum ? Measure.columnOf((AggregateExpression) ((Alias) result).child()) : null;
        }

        /**
         * Returns whether a result need not be computed for groups that the query does not need. An overflow of any group's sum is
         * an error, so it must be proved that none overflows. For a measured column, the group with the largest bound proves this.
         */
        private static boolean mayBeLeftOut(NamedExpression result, Set<String> measured) {
            Expression expression = result instanceof Alias alias ? alias.child() : (Expression) result;
            if (cannotFail(expression)) return true;
            if (!(expression instanceof AggregateExpression aggregate) || aggregate.filter().isDefined()) return false;
            Attribute column = Measure.columnOf(aggregate);
            return column != null && measured.contains(column.name());
        }

        /** Returns the only part of an aggregation from sums. */
        private Part summed(JsonNode sums) {
            List<Attribute> keys = new ArrayList<>();
            for (JsonNode name : sums.required("keys")) keys.add(column(name.asText()));
            List<Measure> measures = new ArrayList<>();
            for (JsonNode measure : sums.required("measures")) {
                List<String> functions = new ArrayList<>();
                for (JsonNode function : measure.required("functions")) functions.add(function.asText());
                measures.add(new Measure(column(measure.required("column").asText()), functions));
            }
            return new Part(keys, aggregates(), measures);
        }

        /** Returns whether a column stands for an aggregated expression. */
        private boolean isMeasured(Attribute column) {
            return scan.measured().stream().anyMatch(expression -> expression.column().exprId().equals(column.exprId()));
        }

        private boolean hasConditional() {
            return parts.stream().flatMap(part -> part.measures.stream()).anyMatch(measure -> isConditional(measure.column.name()));
        }

        /** Returns whether a column stands for an expression that {@link AggregatedExpressions#isConditional}. */
        private boolean isConditional(String column) {
            Map<ExprId, Expression> aliases = aliases(scan.projections);
            return scan.measured().stream().anyMatch(expression -> expression.column().name().equals(column)
                    && AggregatedExpressions.isConditional(expression, scan.aggregate, argument -> inlined(argument, aliases)));
        }

        private Attribute column(String name) {
            List<Attribute> columns = scan.allWithKeys();
            scan.measured().forEach(expression -> columns.add(expression.column()));
            return columns.stream().filter(column -> column.name().equals(name)).findFirst()
                    .orElseThrow(() -> new NotFromKeys(name + " is not a column of the table"));
        }

        /** Groups the aggregates into parts, one for each key set that no other key set contains. */
        private List<Part> parts(List<Attribute> columns) {
            Set<String> grouped = new LinkedHashSet<>();
            for (Expression expression : grouping) {
                require(Allowlist.refusalAsKey(expression));
                addColumns(expression, columns, grouped);
            }
            for (NamedExpression result : results) require(resultRefusal((Expression) result));
            Map<AggregateExpression, Set<String>> columnsByAggregate = new LinkedHashMap<>();
            for (AggregateExpression aggregate : aggregates()) {
                Set<String> aggregateColumns = new LinkedHashSet<>(grouped);
                addColumns(aggregate, columns, aggregateColumns);
                require(KeyAggregates.refusal(aggregate));
                columnsByAggregate.put(aggregate, aggregateColumns);
            }
            List<Set<String>> sets = new ArrayList<>(new LinkedHashSet<>(columnsByAggregate.values()));
            if (sets.isEmpty()) sets.add(grouped);
            sets.removeIf(set -> sets.stream().anyMatch(other -> other != set && other.size() > set.size() && other.containsAll(set)));
            List<Part> parts = new ArrayList<>();
            for (Set<String> set : sets) {
                List<AggregateExpression> aggregatesOfPart = new ArrayList<>();
                columnsByAggregate.forEach((aggregate, columnsOfAggregate) -> {
                    boolean first = sets.stream().filter(other -> other.containsAll(columnsOfAggregate)).findFirst().get() == set;
                    if (first) aggregatesOfPart.add(aggregate);
                });
                parts.add(new Part(columns.stream().filter(column -> set.contains(column.name())).toList(), aggregatesOfPart, List.of()));
            }
            return parts;
        }

        /**
         * Returns the key column whose summary is enough to compute a part; null if there is none. If there are groups of one other
         * key column, the summary is needed for each group.
         */
        Attribute summarized(Part part) {
            List<Attribute> summarized = new ArrayList<>(part.keys);
            if (!grouping.isEmpty()) {
                if (parts.size() > 1 || grouping.size() > 1 || !(grouping.get(0) instanceof Attribute group)) return null;
                summarized.removeIf(key -> key.exprId().equals(group.exprId()));
            }
            if (summarized.size() != 1 || part.keys.size() != grouping.size() + 1) return null;
            Attribute column = summarized.get(0);
            return part.aggregates.stream().allMatch(aggregate -> KeyAggregates.needsSummary(aggregate, column)) ? column : null;
        }

        /**
         * Returns whether each group is a key of a single column, and its results cannot fail. Only then can groups that the query
         * does not need be left out, because Spark raises the error of any group.
         */
        boolean groupsAreKeys() {
            return parts.size() == 1 && parts.get(0).keys.size() == 1 && grouping.size() == 1
                    && grouping.get(0) instanceof Attribute column && column.exprId().equals(parts.get(0).keys.get(0).exprId())
                    && results.stream().allMatch(result -> cannotFail(result instanceof Alias alias ? alias.child() : (Expression) result));
        }

        private static boolean cannotFail(Expression result) {
            if (!(result instanceof AggregateExpression aggregate)) return result instanceof Attribute;
            Class<?> function = aggregate.aggregateFunction().getClass();
            return aggregate.filter().isEmpty() && (function == Count.class || function == Min.class || function == Max.class)
                    && Scala.list(aggregate.aggregateFunction().children()).stream()
                            .allMatch(argument -> argument instanceof Attribute || argument instanceof Literal);
        }

        /** Returns why a result cannot be computed from groups and aggregates; null if it can. */
        private String resultRefusal(Expression result) {
            if (result instanceof AggregateExpression) return null;
            if (grouping.stream().anyMatch(expression -> expression.canonicalized().equals(result.canonicalized()))) return null;
            return Allowlist.refusal(result, this::resultRefusal);
        }

        /**
         * Computes the aggregation from Python's counts of the keys. {@code decision} is the id of the decision in Python. Returns
         * null if Python has no counts, if a sum over keys may differ from the sum over rows, if a conditional expression may fail in
         * a file without counts, or if the session has written the table since the query was planned (because Spark, too, decides
         * which files it reads when it first executes a plan). After a sum that may differ, or an expression that may fail, scans
         * like this one are left alone for a while, because the time of the lookup was lost.
         */
        List<InternalRow> rows(SparkSession session, String decision) throws JsonProcessingException {
            if (scan.listing() != null && scan.listing().isOutdated()) return null;
            Execution counting = Execution.counting(session, decision);
            String numbers = counting.carriedOut(!ChosenStrategy.mustPay(scan));
            if (numbers == null) return null;
            List<Integer> unknown = JSON.readValue(numbers, new TypeReference<List<Integer>>() {}); // as numbers in the listing
            if (!unknown.isEmpty() && hasConditional()) return notExact();
            List<List<InternalRow>> rowsOfParts = new ArrayList<>();
            for (int at = 0; at < parts.size(); at++) {
                Part part = parts.get(at);
                KeyCounts keys = keyed(session, part, counting.sent.get(at), unknown);
                List<Attribute> input = Scala.list(keys.output());
                boolean isExact = part.aggregates.stream().allMatch(aggregate -> part.measureOf(aggregate) == null
                        ? KeyAggregates.isExact(aggregate, input, part.keys.size(), keys.rows())
                        : isExact(aggregate, part.measureOf(aggregate), input, keys.rows()));
                if (!isExact) return notExact();
                rowsOfParts.add(aggregated(session, part, keys));
            }
            List<Attribute> output = new ArrayList<>(groupOutput());
            for (Part part : parts) output.addAll(outputs(part));
            return projected(merged(rowsOfParts), output);
        }

        /** Leaves scans like this one alone for a while, and returns null. */
        private List<InternalRow> notExact() {
            scan.addVerdict("not_exact", false, Verdicts.version(), Verdicts.prices());
            return null;
        }

        /**
         * Returns whether no order of rows makes an aggregate of a measure overflow, in any group. {@code input} are the columns of
         * {@code keys}.
         */
        private boolean isExact(AggregateExpression aggregate, Measure measure, List<Attribute> input, List<InternalRow> keys) {
            BigInteger limit = KeyAggregates.limit(aggregate);
            if (limit == null) return true;
            boolean apart = grouping.stream().allMatch(expression -> Allowlist.isExact(expression.dataType()));
            UnsafeProjection group = UnsafeProjection.create(Scala.seq(apart ? grouping : List.<Expression>of()), Scala.seq(input));
            Map<InternalRow, BigInteger> bounds = new HashMap<>();
            for (InternalRow key : keys) {
                BigInteger bound = measure.bound(key, input);
                if (bound == null) return false;
                BigInteger ofGroup = bounds.merge(group.apply(key).copy(), bound, BigInteger::add);
                if (ofGroup.compareTo(limit) >= 0) return false;
            }
            return true;
        }

        /**
         * Returns the counts of a part as a plan leaf, with the expression ids of the part's keys. Spark counts the {@code unknown}
         * files. If Python has sent a summary, the leaf has one more column, which adds up to the number of distinct keys.
         */
        private KeyCounts keyed(SparkSession session, Part part, ArrowRows counts, List<Integer> unknown) {
            List<Attribute> output = new ArrayList<>();
            List<DataType> types = counts.types();
            for (Attribute key : part.keys) output.add(key.withNullability(true));
            output.add(Expressions.attribute(WEIGHT, DataTypes.LongType, false));
            for (Measure measure : part.measures) output.addAll(measure.attributes());
            if (types.size() > output.size()) {
                if (summarized(part) == null || !unknown.isEmpty()) throw new IllegalStateException("a summary does not answer the aggregation");
                output.add(Expressions.attribute(DISTINCT, DataTypes.LongType, false));
            }
            for (int at = 0; at < output.size(); at++) {
                if (!types.get(at).equals(output.get(at).dataType())) {
                    throw new IllegalStateException("the counts of " + output.get(at).name() + " are not of the column's type");
                }
            }
            List<InternalRow> rows = new ArrayList<>(counts.rows);
            if (!unknown.isEmpty()) {
                LogicalPlan uncounted = countedBySpark(part, NarrowedRelations.restrictedTo(scan, new LinkedHashSet<>(unknown)));
                rows.addAll(SideQuery.rows(session, uncounted, settings().answerBytes()));
            }
            return new KeyCounts(Scala.seq(output), rows);
        }

        /** Returns a plan that counts the rows of a relation by the keys of a part, under the scan's condition. */
        private LogicalPlan countedBySpark(Part part, LogicalPlan relation) {
            LogicalPlan rows = relation;
            for (Expression conjunct : scan.conjuncts) rows = new Filter(conjunct, rows);
            List<NamedExpression> columns = new ArrayList<>(Scala.list(rows.output()));
            int given = columns.size();
            List<KeyExpressions.Key> computed = keysOfRows(scan);
            for (KeyExpressions.Key key : scan.keys()) {
                if (part.keys.contains(key.column())) columns.add(Expressions.alias(ReplacedKeys.ofRow(key, !computed.contains(key)), (NamedExpression) key.column()));
            }
            scan.measured().stream().filter(expression -> part.measures.stream().anyMatch(measure -> measure.column.equals(expression.column())))
                    .forEach(expression -> columns.add(Expressions.alias(expression.source(), (NamedExpression) expression.column())));
            if (columns.size() > given) rows = new Project(Scala.seq(columns), rows);
            List<NamedExpression> results = new ArrayList<>(part.keys);
            results.add(Expressions.alias(Expressions.countAll(), WEIGHT));
            for (Measure measure : part.measures) {
                for (Expression partial : measure.computed()) results.add(Expressions.alias(partial, "partial" + results.size()));
            }
            return new Aggregate(Scala.seq(part.keys), Scala.seq(results), rows, Option.empty());
        }

        /** Computes the groups and aggregates of a part; without a Spark job if there are few keys. */
        private List<InternalRow> aggregated(SparkSession session, Part part, KeyCounts counts) {
            List<Attribute> input = new ArrayList<>(Scala.list(counts.output()));
            Attribute weight = input.get(part.keys.size());
            List<Expression> aggregates = new ArrayList<>();
            boolean isSummary = part.measures.isEmpty() && input.size() > part.keys.size() + 1;
            for (AggregateExpression aggregate : part.aggregates) {
                Measure measure = part.measureOf(aggregate);
                aggregates.add(measure != null ? measure.over(aggregate)
                        : isSummary ? KeyAggregates.overSummary(aggregate, weight, input.get(part.keys.size() + 1))
                        : KeyAggregates.overKeys(aggregate, weight));
            }
            if (counts.rows().size() <= DriverAggregation.MAX_ROWS && DriverAggregation.computes(grouping, aggregates)) {
                return new DriverAggregation(input, grouping, aggregates).of(counts.rows(), settings().resultBytes());
            }
            List<NamedExpression> results = new ArrayList<>();
            for (Expression expression : grouping) results.add(Expressions.alias(expression, "g" + results.size()));
            for (Expression expression : aggregates) results.add(Expressions.alias(expression, "a" + results.size()));
            LogicalPlan plan = new Aggregate(Scala.seq(grouping), Scala.seq(results), counts, Option.empty());
            return SideQuery.rows(session, plan, settings().resultBytes());
        }

        private static Settings settings() {
            return Settings.of(org.apache.spark.sql.internal.SQLConf.get());
        }

        private List<Attribute> groupOutput() {
            List<Attribute> columns = new ArrayList<>();
            for (Expression expression : grouping) columns.add(Expressions.attribute("", expression.dataType(), true));
            return columns;
        }

        private static List<Attribute> outputs(Part part) {
            List<Attribute> columns = new ArrayList<>();
            for (AggregateExpression aggregate : part.aggregates) columns.add(Expressions.attribute("", aggregate.dataType(), true));
            return columns;
        }

        /** Joins the rows of all parts by group. {@code rowsOfParts} has a list of rows for each part. */
        private List<InternalRow> merged(List<List<InternalRow>> rowsOfParts) {
            if (rowsOfParts.size() == 1) return rowsOfParts.get(0);
            List<Attribute> groups = groupOutput();
            UnsafeProjection key = UnsafeProjection.create(Scala.<Expression>seq(new ArrayList<Expression>(groups)), Scala.seq(groups));
            int width = groups.size() + parts.stream().mapToInt(part -> part.aggregates.size()).sum();
            Map<Object, Object[]> rows = new LinkedHashMap<>();
            int start = groups.size();
            for (int at = 0; at < parts.size(); at++) {
                List<Attribute> columns = new ArrayList<>(groups);
                columns.addAll(outputs(parts.get(at)));
                for (InternalRow row : rowsOfParts.get(at)) {
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

        /** Computes the output of the aggregation from rows of groups and aggregates. */
        private List<InternalRow> projected(List<InternalRow> rows, List<Attribute> output) {
            Map<Expression, Attribute> columnByExpression = new HashMap<>();
            for (int at = 0; at < grouping.size(); at++) columnByExpression.put(grouping.get(at).canonicalized(), output.get(at));
            int next = grouping.size();
            for (Part part : parts) {
                for (AggregateExpression aggregate : part.aggregates) columnByExpression.put(aggregate.canonicalized(), output.get(next++));
            }
            List<NamedExpression> outputs = new ArrayList<>();
            for (NamedExpression result : results) {
                Expression over = (Expression) ((Expression) result).transformDown(
                        Scala.replacing(node -> node == result && !(node instanceof Attribute) ? null : columnByExpression.get(node.canonicalized())));
                outputs.add(over instanceof Alias named ? named : Expressions.alias(over, result));
            }
            UnsafeProjection projection = UnsafeProjection.create(
                    Scala.<Expression>seq(outputs.stream().map(result -> ((Alias) result).child()).toList()), Scala.seq(output));
            List<InternalRow> resultRows = new ArrayList<>();
            AnswerSize size = new AnswerSize(settings().resultBytes());
            for (InternalRow row : rows) {
                UnsafeRow result = projection.apply(row).copy();
                size.add(result);
                resultRows.add(result);
            }
            return resultRows;
        }
    }

    /** Returns the aliases of the projections between an aggregation and its scan, expressed in the scan's own columns. */
    private static Map<ExprId, Expression> aliases(List<Project> projections) {
        Map<ExprId, Expression> aliases = new HashMap<>();
        for (int at = projections.size() - 1; at >= 0; at--) { // the lowest first
            for (NamedExpression expression : Scala.list(projections.get(at).projectList())) {
                if (!(expression instanceof Alias alias)) continue;
                Expression below = inlined(alias.child(), aliases);
                require(Allowlist.refusalAsArgument(below));
                aliases.put(alias.exprId(), below);
            }
        }
        return aliases;
    }

    /** Replaces the aliased attributes of an expression by the aliased expressions. */
    private static Expression inlined(Expression expression, Map<ExprId, Expression> aliases) {
        if (aliases.isEmpty()) return expression;
        return (Expression) expression.transform(Scala.replacing(
                node -> node instanceof Attribute attribute ? aliases.get(attribute.exprId()) : null));
    }

    /** Adds the names of the columns that an expression uses. Throws NotFromKeys for a column that is not among {@code columns}. */
    private static void addColumns(Expression expression, List<Attribute> columns, Set<String> names) {
        for (Attribute used : Scala.list(expression.references().toSeq())) {
            Attribute column = columns.stream().filter(candidate -> candidate.exprId().equals(used.exprId())).findFirst()
                    .orElseThrow(() -> new NotFromKeys(used.name() + " is not a column of the table"));
            names.add(column.name());
        }
    }

    private static void require(String refusal) {
        if (refusal != null) throw new NotFromKeys(refusal);
    }
}
