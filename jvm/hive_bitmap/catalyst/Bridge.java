package hive_bitmap.catalyst;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import hive_bitmap.catalyst.following.Writes;
import hive_bitmap.catalyst.observing.Application;
import hive_bitmap.catalyst.python.CallbackPort;
import hive_bitmap.catalyst.python.CurrentContext;
import hive_bitmap.catalyst.python.Helper;
import hive_bitmap.catalyst.python.PythonCalls;
import hive_bitmap.catalyst.python.Reports;
import hive_bitmap.catalyst.python.Settings;
import hive_bitmap.catalyst.python.Verdicts;
import hive_bitmap.catalyst.queries.ChosenStrategy;
import hive_bitmap.catalyst.keys.KeyExpressions;
import hive_bitmap.catalyst.keys.NewKeys;
import hive_bitmap.catalyst.statements.Statements;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BiFunction;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import py4j.GatewayServer;
import scala.runtime.AbstractFunction0;

/**
 * The methods that Python calls. They are not static, because py4j looks for static methods in the class loader of its threads
 * only.
 */
public final class Bridge {
    /** Lets {@code session} and all sessions made from it use indexes, with {@code python} to answer the optimizer rule. */
    public void enable(SparkSession session, BiFunction<Object, Object, Object> python) {
        CurrentContext.is(session.sparkContext());
        BitmapExtension.inject(session.extensions());
        Statements.install(session);
        PythonCalls.register(python);
        Helper.stop();
    }

    /**
     * Lets DataFrames made by {@link #rows} use indexes, with {@code python} to answer the optimizer rule. In a session that is
     * configured with the extension, all queries use indexes already; then {@code python} answers for all of them, instead of the
     * helper.
     */
    public void enableChosen(SparkSession session, BiFunction<Object, Object, Object> python) {
        CurrentContext.is(session.sparkContext());
        if (Helper.isInstalled() && !PythonCalls.isOff()) {
            enable(session, python);
            return;
        }
        BitmapExtension.inject(session.extensions());
        PythonCalls.registerForChosen(python);
    }

    /** Returns whether the driver's own Python answers the optimizer rule, at least for DataFrames of {@link #rows}. */
    public boolean isAnsweredByDriver() {
        return PythonCalls.isAnsweredByDriver();
    }

    /** Has this JVM show the token when it calls Python through py4j's server. */
    public void authenticate(GatewayServer server, String token) {
        CallbackPort.authenticate(server, token);
    }

    /** Switches the optimizer rule off in all sessions. */
    public void disable() {
        PythonCalls.unregister();
        Helper.stop();
    }

    public boolean isEnabled() {
        return !PythonCalls.isAbsent();
    }

    /** Clears the cache of indexed columns. */
    public void forgetIndexed() {
        Verdicts.indexesChanged();
    }

    /** Waits at most {@code seconds} until all writes so far are sent to Python; returns whether they are. */
    public boolean areWritesTold(SparkSession session, long seconds) throws InterruptedException {
        try {
            session.sparkContext().listenerBus().waitUntilEmpty(TimeUnit.SECONDS.toMillis(seconds));
        } catch (TimeoutException e) {
            return false;
        }
        return Writes.areTold(seconds);
    }

    /** Clones a session; in the clone, queries use no indexes and writes are not reported. */
    public SparkSession quietClone(SparkSession session) {
        SparkSession clone = session.cloneSession();
        clone.conf().set(Settings.ENABLED, "false");
        clone.conf().set(Settings.AUTO_REFRESH, "false");
        return clone;
    }

    /**
     * Returns the record of the queries since the application began, as lines of JSON, in a StringBuilder that Python can fetch
     * in pieces.
     */
    public StringBuilder queries(SparkSession session) {
        return new StringBuilder(Application.of(session.sparkContext()).text());
    }

    /** Appends new entries of the record to the file of {@code spark.hive_bitmap.advice_file}, if it is set. */
    public void flushQueries(SparkSession session) {
        Application.of(session.sparkContext()).flush();
    }

    /** Counts a refresh of an index in Spark's metrics. */
    public void refreshed(boolean failed) {
        Application.of(SparkContext.getOrCreate()).refreshed(failed);
    }

    /** Sets the metric for the seconds by which indexes lag behind their tables. */
    public void lag(double seconds) {
        Application.of(SparkContext.getOrCreate()).lag(seconds);
    }

    /**
     * Returns the rows of a table that satisfy a condition, as a DataFrame.
     *
     * @param condition SQL text (null: all rows)
     * @param strategy the name of the strategy to read with, "" to leave it to the planner
     * @param mustPay whether a small table is read without indexes, as in {@link ChosenStrategy}
     * @throws AnalysisException if Spark refuses the table or the condition
     */
    public Dataset<Row> rows(SparkSession session, String table, String condition, String strategy, boolean mustPay)
            throws AnalysisException {
        return session.withActive(new AbstractFunction0<Dataset<Row>>() { // the settings of the active session determine what a literal means
            @Override
            public Dataset<Row> apply() {
                try {
                    return rows(session, table, condition, new ChosenStrategy(strategy, mustPay));
                } catch (AnalysisException e) {
                    throw Bridge.<RuntimeException>unchecked(e);
                }
            }
        });
    }

    /** Throws a checked exception from a Scala function, which need not declare it. */
    @SuppressWarnings("unchecked")
    private static <E extends Throwable> E unchecked(Throwable error) throws E {
        throw (E) error;
    }

    private static Dataset<Row> rows(SparkSession session, String table, String condition, ChosenStrategy chosen)
            throws AnalysisException {
        Dataset<Row> rows = chosen.in(session.table(table));
        if (condition == null) return rows;
        ParserInterface parser = session.sessionState().sqlParser();
        parser.parseExpression(condition); // `a) OR (b` would be valid in parentheses
        Expression whole = parser.parseExpression("(" + condition + "\n)"); // the last word of `k = 1 AND` would be a name
        return Dataset.ofRows(session, new Filter(whole, rows.queryExecution().analyzed()));
    }

    /**
     * Plans a DataFrame and returns the decisions on its scans as a JSON array; for a list, py4j would need a call for each item.
     */
    public String reports(Dataset<?> frame) {
        return "[" + String.join(",", Reports.of(frame)) + "]";
    }

    /**
     * Plans a DataFrame and returns, as JSON, the decisions on its scans and Spark's EXPLAIN of the same plan.
     */
    public String explained(Dataset<?> frame, String mode) {
        return Reports.explained(frame, mode);
    }

    /**
     * Plans a DataFrame for the first time and returns the decisions on its scans, as a JSON array. When the DataFrame is executed
     * later, it uses this plan.
     */
    public String reportsOfFirstPlan(Dataset<?> frame) {
        return "[" + String.join(",", Reports.ofFirstPlan(frame)) + "]";
    }

    /** Describes an expression that is to be the key of an index; see {@link NewKeys#described}. */
    public String describeKey(SparkSession session, String sql, String schema) {
        return session.withActive(new AbstractFunction0<String>() {
            @Override
            public String apply() {
                return NewKeys.described(session, sql, schema);
            }
        });
    }

    /** Describes an expression that is to be aggregated by an index; see {@link NewKeys#aggregated}. */
    public String describeAggregated(SparkSession session, String sql, String schema) {
        return session.withActive(new AbstractFunction0<String>() {
            @Override
            public String apply() {
                return NewKeys.aggregated(session, sql, schema);
            }
        });
    }

    /** Describes a Column that is to be the key of an index; see {@link NewKeys#described}. */
    public String describeColumn(SparkSession session, Column column, String schema) {
        return session.withActive(new AbstractFunction0<String>() {
            @Override
            public String apply() {
                return NewKeys.described(session, column, schema);
            }
        });
    }

    /** Adds the values of keys to rows; see {@link KeyExpressions#evaluated}. {@code keys} is a JSON array. */
    public Dataset<Row> withKeys(SparkSession session, Dataset<Row> rows, String keys) throws JsonProcessingException {
        JsonNode described = new ObjectMapper().readTree(keys);
        return session.withActive(new AbstractFunction0<Dataset<Row>>() {
            @Override
            public Dataset<Row> apply() {
                return KeyExpressions.evaluated(session, rows, described);
            }
        });
    }
}
