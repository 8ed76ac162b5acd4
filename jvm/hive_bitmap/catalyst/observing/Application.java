package hive_bitmap.catalyst.observing;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import hive_bitmap.catalyst.keys.KeyExpressions;
import hive_bitmap.catalyst.keys.ReplacedKeys;
import java.io.IOException;
import java.lang.ref.WeakReference;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.LongSupplier;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;

/** The observations of a SparkContext's sessions: the record of their queries, the metrics, and the times of scans. */
public final class Application {
    private static final Logger LOG = LoggerFactory.getLogger("hive_bitmap");
    private static final String FILE = "spark.hive_bitmap.advice_file";
    private static final String LITERALS = "spark.hive_bitmap.advice_literals";
    private static final int RECORD_BYTES = 4 << 20;
    private static final long FILE_BYTES = 16L << 20;
    private static final int MAX_POSSIBLE_KEYS = 4;
    private static final long FLUSH_MILLISECONDS = 60_000;
    private static final ThreadLocal<Planning> PLANNING = new ThreadLocal<>();
    private static volatile Application current;
    private static boolean isFlushedAtEnd;

    private final QueryRecord queries = new QueryRecord(RECORD_BYTES);
    private final IndexMetrics metrics = new IndexMetrics();
    private final ScanTimes scanTimes = new ScanTimes();
    private final SparkContext context;

    /** The query that a thread plans, and the scans seen in it so far, by the id of their first column. */
    private record Planning(WeakReference<QueryPlanningTracker> query, Map<ExprId, Observation> seen) {}

    private Application(SparkContext context) {
        this.context = context;
    }

    /** Returns the observations of a context. The first call registers the metrics and begins to write the file, if one is set. */
    public static Application of(SparkContext context) {
        Application application = current;
        return application != null && application.context == context ? application : begun(context);
    }

    private static synchronized Application begun(SparkContext context) {
        if (current != null && current.context == context) return current;
        Application application = new Application(context);
        flushCurrent();
        current = application;
        try {
            context.env().metricsSystem().registerSource(application.metrics);
            context.addSparkListener(application.scanTimes);
            if (application.file() != null) application.flushRegularly();
        } catch (RuntimeException | LinkageError e) {
            LOG.debug("queries are not observed: {}", e.toString());
        }
        return application;
    }

    /**
     * Observes a scan of the query that this thread plans. A scan is observed only once, even if Spark optimizes it again, as it
     * does with a subquery: by itself, and with its query.
     *
     * @param first the first column of the scan's relation
     * @param keySets as in {@link QueryShape}
     * @param sums as in {@link QueryShape}
     * @param possible expressions of the query that could be keys
     * @param bytes the bytes of the files that Spark would read, -1 if unknown
     * @param columns the columns that are read, {@code "*"} for all
     */
    public Observation observe(
            CatalogTable table, Attribute first, List<Expression> conjuncts, List<List<String>> keySets, String sums,
            List<KeyExpressions.Key> possible, long bytes, Collection<String> columns) {
        Map<ExprId, Observation> seen = seen();
        return seen.computeIfAbsent(first.exprId(), id -> observed(table, conjuncts, keySets, sums, possible, bytes, columns));
    }

    private Observation observed(
            CatalogTable table, List<Expression> conjuncts, List<List<String>> keySets, String sums,
            List<KeyExpressions.Key> possible, long bytes, Collection<String> columns) {
        ColumnTests tested = new ColumnTests(conjuncts, keepsLiterals());
        List<ColumnTest> tests = tested.tests();
        if (tests.isEmpty() && keySets == null && sums == null) return new Observation(metrics, queries, null, bytes);
        Map<String, Set<String>> samples = new HashMap<>(tested.samples());
        List<KeyTest> keyTests = List.of();
        if (!possible.isEmpty()) {
            List<Expression> overKeys = conjuncts.stream().map(conjunct -> ReplacedKeys.in(conjunct, possible, List.of())).toList();
            ColumnTests testedKeys = new ColumnTests(overKeys, keepsLiterals());
            keyTests = possible.stream().limit(MAX_POSSIBLE_KEYS).map(key -> KeyTest.of(key, testedKeys, samples)).toList();
        }
        QueryShape shape = new QueryShape(table.database(), table.identifier().table(), tests, keySets, sums, keyTests);
        queries.add(shape, bytes, columns, samples);
        return new Observation(metrics, queries, shape, bytes);
    }

    /** Returns the scans seen so far of the query that this thread plans. */
    private static Map<ExprId, Observation> seen() {
        Option<QueryPlanningTracker> query = QueryPlanningTracker.get();
        Planning planning = PLANNING.get();
        if (planning == null || query.isEmpty() || planning.query.get() != query.get()) {
            planning = new Planning(new WeakReference<>(query.isEmpty() ? null : query.get()), new HashMap<>());
            PLANNING.set(planning);
        }
        return planning.seen;
    }

    /**
     * Records the bytes of a scan's files after Spark has pruned its partitions. {@code bytes} is called only if they were unknown.
     */
    public static void sized(Attribute first, LongSupplier bytes) {
        Planning planning = PLANNING.get();
        Observation scan = planning == null ? null : planning.seen.get(first.exprId());
        if (scan != null && scan.isUnsized()) scan.sized(bytes.getAsLong());
    }

    /** Returns the times of scans. */
    public ScanTimes scanTimes() {
        return scanTimes;
    }

    private boolean keepsLiterals() {
        return "true".equalsIgnoreCase(context.conf().get(LITERALS, "false").trim());
    }

    /** Counts a refresh of an index in the metrics. */
    public void refreshed(boolean failed) {
        metrics.refreshed(failed);
    }

    /** Sets the metric for the seconds by which indexes lag behind their tables. */
    public void lag(double seconds) {
        metrics.lag(seconds);
    }

    /** Returns the record as lines: the first has the time that the record covers, the others are those of {@link QueryRecord}. */
    public String text() {
        return String.join("\n", headed(queries.lines()));
    }

    private List<String> headed(List<String> lines) {
        ObjectNode head = JsonNodeFactory.instance.objectNode();
        head.put("application", context.applicationId()).put("since", context.startTime() / 1e3);
        head.put("until", System.currentTimeMillis() / 1e3).put("forgotten", queries.forgotten());
        List<String> all = new ArrayList<>(List.of(head.toString()));
        all.addAll(lines);
        return all;
    }

    private String file() {
        String name = context.conf().get(FILE, "").trim();
        return name.isEmpty() ? null : name;
    }

    /** Appends new entries of the record to the file, if one is set. After an error, which is logged, the next call retries. */
    public synchronized void flush() {
        String name = file();
        if (name == null) return;
        QueryRecord.Taken taken = queries.take();
        if (taken.lines().isEmpty()) return;
        try {
            new AdviceFile(Path.of(name), FILE_BYTES).append(headed(taken.lines()));
        } catch (IOException | RuntimeException e) {
            queries.putBack(taken);
            LOG.debug("{} is not written: {}", name, e.toString());
        }
    }

    private void flushRegularly() {
        Thread writer = new Thread(this::flushUntilEnd, "hive_bitmap-advice");
        writer.setDaemon(true);
        writer.start();
        if (!isFlushedAtEnd) Runtime.getRuntime().addShutdownHook(new Thread(Application::flushCurrent, "hive_bitmap-advice-end"));
        isFlushedAtEnd = true;
    }

    private static void flushCurrent() {
        Application application = current;
        if (application != null) application.flush();
    }

    private void flushUntilEnd() {
        try {
            while (current == this) {
                Thread.sleep(FLUSH_MILLISECONDS);
                flush();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
