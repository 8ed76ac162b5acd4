package hive_bitmap.catalyst.keys;

import com.fasterxml.jackson.databind.JsonNode;
import hive_bitmap.catalyst.spark.Expressions;
import hive_bitmap.catalyst.spark.KeyCounts;
import hive_bitmap.catalyst.spark.Scala;
import hive_bitmap.catalyst.spark.SideQuery;
import java.time.ZoneId;
import java.time.zone.ZoneRulesProvider;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.CaseWhen;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.TimeZoneAwareExpression;
import org.apache.spark.sql.catalyst.expressions.TryEval;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import scala.Option;
import scala.Tuple2;
import scala.runtime.AbstractFunction0;

/**
 * Keys of indexes that are expressions over columns. Their values are stored, so they must be the same in each build and each
 * query: they consist of {@link StoredFunctions}.
 *
 * <p>A key is resolved under the settings that its index records, and compared with expressions of queries in canonical form. An
 * expression has its own time zone and modes, so it equals a key only if these are equal.
 */
public final class KeyExpressions {
    public static final String ANSI = "spark.sql.ansi.enabled";
    public static final String TIME_ZONE = "spark.sql.session.timeZone";
    /** The setting that decides the types of sums and products of decimals. */
    static final String PRECISION_LOSS = "spark.sql.decimalOperations.allowPrecisionLoss";
    /** The name in an index's settings for the version of the time zone rules. */
    static final String TZDATA = "tzdata";

    /** The settings that decide how a text is parsed. They are the same for all keys. */
    private static final Map<String, String> PARSING = Map.of(
            "spark.sql.caseSensitive", "false",
            "spark.sql.parser.escapedStringLiterals", "false",
            "spark.sql.ansi.doubleQuotedIdentifiers", "false",
            "spark.sql.ansi.enforceReservedKeywords", "false",
            "spark.sql.timestampType", "TIMESTAMP_LTZ");
    private static final int MAX_RESOLVED = 1000;
    private static final Map<List<Object>, Resolved> RESOLVED = new ConcurrentHashMap<>(); // by session, key, and columns
    private static final String RESERVED = "hive_bitmap"; // the beginning of the names of keys, but of no column in them

    private static final String REASON = "hive_bitmap reason"; // a column that is NULL in rows of base files, as in computing.py

    private KeyExpressions() {}

    /**
     * A key of an index that a query may use.
     *
     * @param value the expression over the columns of the relation, in canonical form
     * @param column a column that stands for the expression, with the name of the key
     * @param source the expression as it was resolved
     * @param function the expression as a function of its column; null if it has several columns
     */
    public record Key(Expression value, AttributeReference column, Expression source, KeyFunction function) {
        public boolean hasOneColumn() {
            return function != null;
        }

        /** Returns the column of a key that has only one. */
        public Attribute tested() {
            return Scala.list(source.references().toSeq()).get(0);
        }

        /** Returns whether the key is NULL exactly where its only column is NULL. */
        boolean isNullWith(Attribute tested) {
            return source.references().size() == 1 && source.references().contains(tested) && !StoredFunctions.hasHash(source);
        }
    }

    /** An expression that was resolved over columns. Spark's optimizer has taken a while for it, so it is cached. */
    private record Resolved(Expression expression, List<Attribute> columns, KeyFunction function) {
        /** Returns the expression over other columns, of the same names and types in the same order. */
        Expression over(List<Attribute> others) {
            return (Expression) expression.transform(Scala.replacing(node -> {
                if (!(node instanceof Attribute used)) return null;
                for (int at = 0; at < columns.size(); at++) {
                    if (columns.get(at).exprId().equals(used.exprId())) return others.get(at);
                }
                return null;
            }));
        }
    }

    /** Thrown for a key that this session resolves to another expression than that of the index, or not at all. */
    public static final class NotServed extends RuntimeException {
        NotServed(String reason) {
            super(reason, null, false, false);
        }
    }

    /** Returns the version of the rules of a time zone; "" if it has a fixed offset. */
    static String rules(String zone) {
        ZoneId id = org.apache.spark.sql.catalyst.util.DateTimeUtils.getZoneId(zone);
        if (id.getRules().isFixedOffset()) return "";
        return ZoneRulesProvider.getVersions(id.getId()).lastKey();
    }

    /**
     * Resolves the text of a key over columns, and lets Spark's optimizer simplify it. Throws NotServed if it cannot be a key.
     *
     * @param settings the settings under which it is resolved, by name
     */
    static Expression resolved(SparkSession session, String sql, Map<String, String> settings, List<Attribute> columns) {
        return requireKey(simplified(session, parser -> parser.parseExpression(sql), settings, columns), settings);
    }

    /** Resolves the text of an expression to aggregate, as {@link #resolved} does for a key. */
    static Expression resolvedAggregated(SparkSession session, String sql, Map<String, String> settings, List<Attribute> columns) {
        Expression resolved = simplified(session, parser -> parser.parseExpression(sql), settings, columns);
        require(resolved, AggregatedOperations.refusal(resolved));
        return resolved;
    }

    /** Makes an unresolved expression. It may throw the errors of Spark for one that Spark does not understand. */
    @FunctionalInterface
    interface Parsing {
        Expression by(ParserInterface parser) throws Exception;
    }

    /** Resolves an expression over columns, and lets Spark's optimizer simplify it. Throws NotServed if Spark cannot resolve it. */
    static Expression simplified(SparkSession session, Parsing parsing, Map<String, String> settings, List<Attribute> columns) {
        var state = ((org.apache.spark.sql.classic.SparkSession) session).sessionState();
        SQLConf conf = state.conf().clone();
        PARSING.forEach(conf::setConfString);
        settings.forEach((name, value) -> {
            if (!name.equals(TZDATA)) conf.setConfString(name, value);
        });
        if (settings.containsKey(TZDATA)) {
            String zone = settings.get(TIME_ZONE);
            String current = rules(zone);
            if (!current.equals(settings.get(TZDATA))) {
                throw new NotServed("it has the rules of time zone " + zone + " of tzdata " + settings.get(TZDATA)
                        + ", and this JVM has those of " + (current.isEmpty() ? "another one" : current));
            }
        }
        Expression resolved = SQLConf.withExistingConf(conf, new AbstractFunction0<Expression>() {
            @Override
            public Expression apply() {
                return refusedIfUnknown(() -> {
                    Expression parsed = parsing.by(state.sqlParser());
                    if (parsed instanceof Alias) throw new NotServed("the name stands behind the expression: expression AS name");
                    LogicalPlan plan = new Project(
                            Scala.<NamedExpression>seq(List.of(Expressions.alias(parsed, "key"))), new KeyCounts(Scala.seq(columns), List.of()));
                    LogicalPlan optimized = SideQuery.optimized(session, plan);
                    if (!(optimized instanceof Project project && Scala.list(project.projectList()).get(0) instanceof Alias alias)) {
                        throw new NotServed("Spark computes it by more than an expression");
                    }
                    for (Attribute used : Scala.list(alias.child().references().toSeq())) {
                        if (columns.stream().noneMatch(column -> column.exprId().equals(used.exprId()))) {
                            throw new NotServed("Spark computes it by more than an expression");
                        }
                    }
                    requireNames(parsed, columns);
                    return alias.child();
                });
            }
        });
        return StoredFunctions.normalized(resolved);
    }

    /** Requires that a resolved expression can be a key, and returns it. Throws NotServed. */
    static Expression requireKey(Expression resolved, Map<String, String> settings) {
        require(resolved, StoredFunctions.refusal(resolved));
        if (!StoredFunctions.isKey(resolved.dataType())) {
            throw new NotServed("its type is " + resolved.dataType().simpleString() + ", which is no key here");
        }
        if (resolved.exists(Scala.predicate(node -> StoredFunctions.dependsOnZone(node) && !hasZone(node, settings.get(TIME_ZONE))))) {
            throw new NotServed("a function in it has a time zone of its own");
        }
        return resolved;
    }

    /** Requires that a resolved expression has columns, is not a column, and is not refused. Throws NotServed. */
    private static void require(Expression resolved, String refusal) {
        if (resolved.deterministic() && resolved.references().isEmpty()) throw new NotServed("it has no column of the table");
        if (refusal != null) throw new NotServed(refusal);
        if (resolved instanceof Attribute) throw new NotServed("it is a column: leave out its name after AS");
    }

    /**
     * Calls Spark. If Spark does not understand an expression, throws NotServed with the first line of Spark's message; if its parser
     * or its optimizer needs more stack than the thread has, with a sentence.
     */
    static Expression refusedIfUnknown(Callable<Expression> call) {
        try {
            return call.call();
        } catch (StackOverflowError e) {
            throw new NotServed("it is nested too deep");
        } catch (Exception e) {
            if (e instanceof AnalysisException) throw new NotServed(e.getMessage().lines().findFirst().orElse(e.toString()).strip());
            throw KeyExpressions.<RuntimeException>unchecked(e);
        }
    }

    static boolean hasZone(Expression node, String zone) {
        Option<String> own = ((TimeZoneAwareExpression) node).timeZoneId();
        return own.isDefined() && own.get().equals(zone);
    }

    /** Requires that each name in the text of a key is a column or one of Spark's own functions. Throws NotServed. */
    private static void requireNames(Expression parsed, List<Attribute> columns) {
        if (parsed instanceof UnresolvedAttribute named) {
            List<String> parts = Scala.list(named.nameParts());
            if (parts.size() != 1 || columns.stream().noneMatch(column -> column.name().equalsIgnoreCase(parts.get(0)))) {
                throw new NotServed(named.name() + " is not a column of the table");
            }
        }
        if (parsed instanceof UnresolvedFunction called) {
            String name = String.join(".", Scala.list(called.nameParts()));
            if (!FunctionRegistry.builtin().functionExists(new FunctionIdentifier(name))) throw new NotServed(name + " is not a function of Spark");
        }
        for (Expression child : Scala.list(parsed.children())) requireNames(child, columns);
    }

    /** Returns the SQL text of a key, with the table's column names, and without the key's own name. */
    static String canonical(Expression resolved) {
        return Expressions.sql((Expression) resolved.transform(Scala.replacing(node -> node instanceof AttributeReference column
                ? column.withQualifier(Scala.seq(List.<String>of())) : null)));
    }

    static SQLConf confOf(SparkSession session) {
        return ((org.apache.spark.sql.classic.SparkSession) session).sessionState().conf();
    }

    @SuppressWarnings("unchecked")
    private static <E extends Throwable> E unchecked(Throwable error) throws E {
        throw (E) error;
    }

    /**
     * Resolves a key over the columns of a relation. Throws NotServed if this session cannot.
     *
     * @param described the key in JSON: its {@code name}, {@code sql}, {@code canonical}, {@code type}, {@code columns} and {@code settings}
     */
    public static Key key(SparkSession session, JsonNode described, List<Attribute> columns) {
        Resolved resolved = cached(session, described, columns);
        AttributeReference column = Expressions.attribute(described.path("name").asText(), resolved.expression().dataType(), true);
        return new Key(resolved.expression().canonicalized(), column, resolved.expression(), resolved.function());
    }

    /** Resolves an expression to aggregate over the columns of a relation, as {@link #key} does for a key. */
    static Expression source(SparkSession session, JsonNode described, List<Attribute> columns) {
        return cached(session, described, columns).expression();
    }

    /** Returns the expression that JSON describes over the columns of a relation. Throws NotServed if this session cannot resolve it. */
    private static Resolved cached(SparkSession session, JsonNode described, List<Attribute> columns) {
        Map<String, String> settings = new LinkedHashMap<>();
        described.path("settings").fields().forEachRemaining(setting -> settings.put(setting.getKey(), setting.getValue().asText()));
        Set<String> used = new HashSet<>();
        described.path("columns").forEach(name -> used.add(name.asText().toLowerCase(Locale.ROOT)));
        List<Attribute> sources = columns.stream().filter(column -> used.contains(column.name().toLowerCase(Locale.ROOT))).toList();
        List<Object> resolvedBy = List.of(
                ((org.apache.spark.sql.classic.SparkSession) session).sessionUUID(), described,
                sources.stream().map(column -> List.of(column.name(), column.dataType(), column.metadata())).toList());
        Resolved cached = RESOLVED.get(resolvedBy);
        if (cached == null) {
            String sql = described.path("sql").asText();
            boolean isAggregated = described.path("aggregated").asBoolean();
            Expression resolved = isAggregated ? resolvedAggregated(session, sql, settings, sources) : resolved(session, sql, settings, sources);
            requireSame(resolved, described);
            cached = new Resolved(resolved, sources, isAggregated ? null : KeyFunction.of(resolved));
            if (RESOLVED.size() >= MAX_RESOLVED) RESOLVED.clear();
            RESOLVED.put(resolvedBy, cached);
        }
        return new Resolved(cached.over(sources), sources, cached.function());
    }

    /**
     * Requires that the text of a key means in this session what it meant where the index was created. It may differ, because
     * settings of a session decide to which of two functions a name refers. Throws NotServed.
     */
    private static void requireSame(Expression resolved, JsonNode described) {
        String now = canonical(resolved);
        String then = described.path("canonical").asText();
        if (!now.equalsIgnoreCase(then) || !resolved.dataType().simpleString().equals(described.path("type").asText())) {
            throw new NotServed("it is " + now + " here and " + then + " in the index");
        }
    }

    /** Returns how a session's settings differ from those of a key; "" if they are the same. */
    public static String difference(SparkSession session, JsonNode described) {
        SQLConf conf = confOf(session);
        List<String> differences = new ArrayList<>();
        JsonNode settings = described.path("settings");
        String zone = settings.path(TIME_ZONE).asText();
        String ansi = settings.path(ANSI).asText();
        if (!zone.isEmpty() && !zone.equals(conf.sessionLocalTimeZone())) {
            differences.add(TIME_ZONE + " is " + conf.sessionLocalTimeZone() + " here and " + zone + " in the index");
        }
        if (!ansi.isEmpty() && !ansi.equals(Boolean.toString(conf.ansiEnabled()))) {
            differences.add(ANSI + " is " + conf.ansiEnabled() + " here and " + ansi + " in the index");
        }
        String loss = settings.path(PRECISION_LOSS).asText();
        if (!loss.isEmpty() && !loss.equals(Boolean.toString(conf.decimalOperationsAllowPrecisionLoss()))) {
            differences.add(PRECISION_LOSS + " is " + conf.decimalOperationsAllowPrecisionLoss() + " here and " + loss + " in the index");
        }
        return String.join(", and ", differences);
    }

    /** Returns whether an expression is the expression of a key. */
    static boolean isKey(Expression node, Key key) {
        return StoredFunctions.normalized(node).canonicalized().equals(key.value());
    }

    /**
     * Returns the keys that may replace expressions of an aggregation. Rows of files that an index does not cover are grouped by
     * the keys, so the keys are computed for each of these rows. A key that fails for some values may replace only an expression
     * that the aggregation, too, computes for each row: not that in {@code CASE WHEN n < 100 THEN CAST(n AS TINYINT) END}.
     */
    public static List<Key> computedAlways(Aggregate aggregate, UnaryOperator<Expression> inScan, List<Key> keys) {
        List<Expression> computed = new ArrayList<>();
        for (Expression grouping : Scala.list(aggregate.groupingExpressions())) computed.add(inScan.apply(grouping));
        for (AggregateExpression measure : Expressions.aggregates(aggregate)) {
            computed.add(inScan.apply(measure.filter().isDefined() ? measure.filter().get() : (Expression) measure.aggregateFunction()));
        }
        return keys.stream().filter(key -> !StoredFunctions.canFail(key.source()) || computed.stream().anyMatch(root -> isComputed(root, key))).toList();
    }

    /** Returns whether an expression computes a key before anything else, for each row, and outside of {@code TryEval}. */
    private static boolean isComputed(Expression expression, Key key) {
        if (isKey(expression, key)) return true;
        if (expression instanceof TryEval) return false;
        return Scala.list(expression.children()).stream().filter(child -> !(child instanceof Literal)).findFirst()
                .map(first -> isComputed(first, key)).orElse(false);
    }

    /**
     * Computes keys of rows. The result has two columns for each key: one with its name and value, and one that says whether
     * computing it has failed; the value is then NULL. Before these, the result has the columns of the rows whose names begin like
     * those of keys.
     *
     * @param keys the keys, or expressions to aggregate, in JSON, as {@link #key} takes them
     */
    public static Dataset<Row> evaluated(SparkSession session, Dataset<Row> rows, JsonNode keys) {
        LogicalPlan input = rows.queryExecution().analyzed();
        List<Attribute> columns = Scala.list(input.output());
        List<NamedExpression> results = new ArrayList<>();
        columns.stream().filter(column -> column.name().startsWith(RESERVED)).forEach(results::add);
        Expression isRow = new IsNull(columns.stream().filter(column -> column.name().equals(REASON)).findFirst().orElseThrow());
        for (JsonNode described : keys) {
            String name = described.path("name").asText();
            boolean isAggregated = described.path("aggregated").asBoolean();
            Expression source = isAggregated ? source(session, described, columns) : key(session, described, columns).source();
            // Without ANSI mode, a decimal that overflows is NULL. In ANSI mode x * y may fail although z, and so the whole of
            // x * y + z, is NULL.
            Expression fails = new Literal(false, DataTypes.BooleanType);
            for (Expression part : isAggregated ? AggregatedOperations.failing(source) : List.of(source)) {
                fails = new Or(fails, hasFailed(part, isRow));
            }
            results.add(Expressions.alias(tried(source, isRow), name));
            results.add(Expressions.alias(fails, name + " fails"));
        }
        return Dataset.ofRows((org.apache.spark.sql.classic.SparkSession) session, new Project(Scala.seq(results), input));
    }

    /** Returns the value of an expression for rows; NULL if computing it fails. */
    private static Expression tried(Expression source, Expression isRow) {
        // Within CASE, Spark does not compute what several keys have in common before TryEval, where it would fail.
        return new CaseWhen(Scala.seq(List.of(Tuple2.apply(isRow, (Expression) new TryEval(source)))), Option.empty());
    }

    /** Returns whether an expression has no value although no column of it is NULL. */
    private static Expression hasFailed(Expression source, Expression isRow) {
        Expression failed = new IsNull(tried(source, isRow));
        if (StoredFunctions.hasHash(source)) return failed; // a hash is never NULL
        for (Attribute column : Scala.list(source.references().toSeq())) failed = new And(failed, new IsNotNull(column));
        return failed;
    }
}
