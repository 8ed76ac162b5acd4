package hive_bitmap.catalyst;

import hive_bitmap.catalyst.following.Writes;
import hive_bitmap.catalyst.observing.Application;
import hive_bitmap.catalyst.python.CallbackPort;
import hive_bitmap.catalyst.python.CurrentContext;
import hive_bitmap.catalyst.python.Helper;
import hive_bitmap.catalyst.python.IndexedColumns;
import hive_bitmap.catalyst.python.PythonCalls;
import hive_bitmap.catalyst.python.Reports;
import hive_bitmap.catalyst.python.Settings;
import hive_bitmap.catalyst.queries.ChosenStrategy;
import hive_bitmap.catalyst.statements.Statements;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BiFunction;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import py4j.GatewayServer;
import scala.runtime.AbstractFunction0;

/** The methods that Python calls. Not static, since py4j looks for static methods in the class loader of its threads only. */
public final class Bridge {
    /** Lets this session, and sessions that are made from it, use indexes, with {@code python} to answer the rule. */
    public void enable(SparkSession session, BiFunction<Object, Object, Object> python) {
        CurrentContext.is(session.sparkContext());
        BitmapExtension.inject(session.extensions());
        Statements.install(session);
        PythonCalls.register(python);
        Helper.stop();
    }

    /**
     * Lets DataFrames that {@link #rows} has made use indexes, with {@code python} to answer the rule. In a session whose
     * configuration has the extension, all queries do already: they are answered by this Python from now on, not by the helper.
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

    /** Whether the driver's own Python answers the rule, for all queries or for those of {@link #rows}. */
    public boolean isAnsweredByDriver() {
        return PythonCalls.isAnsweredByDriver();
    }

    /** Lets this JVM show the token when it calls Python through the server of py4j. */
    public void authenticate(GatewayServer server, String token) {
        CallbackPort.authenticate(server, token);
    }

    /** Switches the rule off in all sessions. */
    public void disable() {
        PythonCalls.unregister();
        Helper.stop();
    }

    public boolean isEnabled() {
        return !PythonCalls.isAbsent();
    }

    /** Clears the cache of indexed columns. */
    public void forgetIndexed() {
        IndexedColumns.clear();
    }

    /** Waits until Python has been told of all writes so far, {@code seconds} at most. Returns whether it has. */
    public boolean areWritesTold(SparkSession session, long seconds) throws InterruptedException {
        try {
            session.sparkContext().listenerBus().waitUntilEmpty(TimeUnit.SECONDS.toMillis(seconds));
        } catch (TimeoutException e) {
            return false;
        }
        return Writes.areTold(seconds);
    }

    /** Returns a session with the state of another, in which our rule does nothing and writes are not followed. */
    public SparkSession quietClone(SparkSession session) {
        SparkSession clone = session.cloneSession();
        clone.conf().set(Settings.ENABLED, "false");
        clone.conf().set(Settings.AUTO_REFRESH, "false");
        return clone;
    }

    /** Returns the record of the queries since the application began, lines of JSON; in pieces, as Python fetches long texts. */
    public StringBuilder queries(SparkSession session) {
        return new StringBuilder(Application.of(session.sparkContext()).text());
    }

    /** Appends what is new in the record to the file of {@code spark.hive_bitmap.advice_file}, if there is one. */
    public void flushQueries(SparkSession session) {
        Application.of(session.sparkContext()).flush();
    }

    /** Counts a refresh of an index in Spark's metrics. */
    public void refreshed(boolean failed) {
        Application.of(SparkContext.getOrCreate()).refreshed(failed);
    }

    /** Says in Spark's metrics by how many seconds indexes are behind their tables. */
    public void lag(double seconds) {
        Application.of(SparkContext.getOrCreate()).lag(seconds);
    }

    /** Returns the rows of a table that satisfy a condition (null: all), to be read as was chosen. Throws what Spark refuses. */
    public Dataset<Row> rows(SparkSession session, String table, String condition, String strategy, boolean mustPay)
            throws AnalysisException {
        return session.withActive(new AbstractFunction0<Dataset<Row>>() { // whose settings say what a literal means
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

    /** Throws what a Scala function need not declare. */
    @SuppressWarnings("unchecked")
    private static <E extends Throwable> E unchecked(Throwable error) throws E {
        throw (E) error;
    }

    private static Dataset<Row> rows(SparkSession session, String table, String condition, ChosenStrategy chosen)
            throws AnalysisException {
        Dataset<Row> rows = chosen.in(session.table(table));
        if (condition == null) return rows;
        ParserInterface parser = session.sessionState().sqlParser();
        parser.parseExpression(condition); // `a) OR (b` would be one in parentheses
        Expression whole = parser.parseExpression("(" + condition + "\n)"); // the last word of `k = 1 AND` would be a name
        return Dataset.ofRows(session, new Filter(whole, rows.queryExecution().analyzed()));
    }

    /** Plans a DataFrame and returns the decisions on its scans, a JSON array: py4j takes a call for each item of a list. */
    public String reports(Dataset<?> frame) {
        return "[" + String.join(",", Reports.of(frame)) + "]";
    }

    /** Plans a DataFrame and returns, as JSON, the decisions on its scans and Spark's own EXPLAIN of the same plan. */
    public String explained(Dataset<?> frame, String mode) {
        return Reports.explained(frame, mode);
    }

    /** Returns the same for a DataFrame that was not planned yet, and is executed by the plan that is made of it now. */
    public String reportsOfFirstPlan(Dataset<?> frame) {
        return "[" + String.join(",", Reports.ofFirstPlan(frame)) + "]";
    }
}
