package hive_bitmap.catalyst.python;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import hive_bitmap.catalyst.reading.SplitSize;
import hive_bitmap.catalyst.spark.ArrowRows;
import hive_bitmap.catalyst.spark.Conditions;
import hive_bitmap.catalyst.spark.Scala;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.BooleanType;
import scala.Option;

/** A request to Python about a query, with the methods that Python calls to answer it. */
public abstract class PythonRequest {
    /**
     * The version of the protocol between this jar and Python, as in hive_bitmap/spark/jvm_bridge.py. Raise both with each change
     * that the other side does not understand. If the versions differ, Python reads only the {@code protocol} of a question, and
     * the {@code database} and {@code table} of each of its {@code scans}, and replies "leave alone".
     */
    public static final int PROTOCOL = 17;

    /** The settings of Hadoop that determine what readers see. A program or a site file may set them outside the session. */
    private static final List<String> OF_READERS = SettingEntries.ofReaders();
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Versions<scala.collection.immutable.Map<String, String>> SETTINGS = new Versions<>(64);

    protected final SparkSession session;

    protected PythonRequest(SparkSession session) {
        this.session = session;
    }

    /** Returns "plan" or "execute". */
    public abstract String kind();

    /** Returns the content of the request as JSON. */
    public abstract String text();

    /** Returns whether the query no longer waits for the answer. */
    public boolean isLate() {
        return false;
    }

    /** Takes Python's answer; not called if Python has failed. */
    protected void answered(Object answer) {}

    /** Returns an expression of a scan by its number in the request's JSON. */
    protected Expression expression(int scan, int number) {
        throw new IllegalStateException("this request has no expressions");
    }

    /** Returns the deleted rows of some files of a scan, as JSON. {@code numbers} are the files' numbers in the scan's listing. */
    protected StringBuilder deleted(int scan, List<Integer> numbers) {
        throw new IllegalStateException("this request has no listing");
    }

    /**
     * Returns the deleted rows of some files; {@code numbers} is a JSON array of the files' numbers. Python can fetch a
     * StringBuilder in pieces.
     */
    public StringBuilder deleted(int scan, String numbers) throws JsonProcessingException {
        return deleted(scan, JSON.readValue(numbers, new TypeReference<List<Integer>>() {}));
    }

    /** Returns the settings of the session that differ from their defaults, and the settings of Hadoop in {@link #OF_READERS}. */
    public scala.collection.immutable.Map<String, String> settings() {
        return currentSettings();
    }

    /** Returns the version of the settings, by which Python caches them. */
    public static String settingsVersion() {
        return SETTINGS.of(currentSettings());
    }

    private static scala.collection.immutable.Map<String, String> currentSettings() {
        Map<String, String> settings = new HashMap<>();
        Configuration hadoop = SparkContext.getOrCreate().hadoopConfiguration();
        for (String name : OF_READERS) {
            String value = hadoop.get(name);
            String[] sources = value == null ? null : hadoop.getPropertySources(name);
            if (sources != null && !sources[sources.length - 1].endsWith("-default.xml")) settings.put(name, value);
        }
        scala.collection.immutable.Map<String, String> session = SQLConf.get().getAllConfs();
        if (settings.isEmpty()) return session;
        settings.putAll(Scala.javaMap(session));
        return Scala.map(settings);
    }

    /** Returns the number of tasks that run at once. */
    protected String cores() {
        return Integer.toString(SplitSize.parallelism(session.sparkContext()));
    }

    protected String sessionName() {
        return ((org.apache.spark.sql.classic.SparkSession) session).sessionUUID();
    }

    /**
     * Returns the rows of an Arrow batch that satisfy an expression of a scan.
     *
     * @param number the number of the expression
     * @param schema Spark's schema of the batch as JSON; one column has the name and type of the tested column
     */
    public Dataset<Row> satisfying(int scan, int number, String schema, byte[] batch) {
        Expression condition = expression(scan, number);
        Attribute tested = Scala.list(condition.references().toSeq()).get(0);
        ArrowRows keys = new ArrowRows(schema).add(batch);
        List<Attribute> columns = keys.columns();
        Attribute key = columns.stream().filter(column -> column.name().equalsIgnoreCase(tested.name())).findFirst().orElse(null);
        if (key == null || !key.dataType().equals(tested.dataType()) || !(condition.dataType() instanceof BooleanType)) {
            throw new IllegalArgumentException("the keys of " + tested.name() + " are not of the column's type");
        }
        Expression overKeys = Conditions.substitute(condition, tested, key);
        LocalRelation plan = new LocalRelation(Scala.seq(columns), Scala.seq(keys.rows), false, Option.empty());
        return Dataset.ofRows((org.apache.spark.sql.classic.SparkSession) session, new Filter(overKeys, plan));
    }
}
