package hive_bitmap.catalyst.observing;

import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;

/**
 * Measures queries whose plan has a single scan on which Python has decided, so that Python can compare the times with its prices.
 * A query is measured only if it does hardly more than scan: all nodes of its plan are in {@link #NODES} and pass on few rows, its
 * filters have only expressions in {@link #CHEAP}, and no job of another query runs at the same time. A slow function in a filter
 * would make all scans look slow. A plan with a limit is not measured, because it need not read everything.
 */
public final class ScanTimes extends SparkListener {
    private static final Logger LOG = LoggerFactory.getLogger("hive_bitmap");
    private static final long MAX_ROWS = 50_000; // of any node but the scan
    private static final int MAX_MEASURED = 64;
    private static final int MAX_JOBS = 1000;
    private static final String MANY = ""; // in place of a decision: several were made for the query
    private static final String NONE = ""; // in place of the id of a query: a job that belongs to none
    private static final String ROWS = "numOutputRows";
    private static final Set<String> SCANS = Set.of("FileSourceScanExec", "NarrowedScanExec", "DecidedRowsExec");
    private static final Set<String> NODES = Set.of(
            "WholeStageCodegenExec", "InputAdapter", "ColumnarToRowExec", "FilterExec", "ProjectExec", "HashAggregateExec",
            "ObjectHashAggregateExec", "SortAggregateExec", "SortExec", "TakeOrderedAndProjectExec", "ShuffleExchangeExec",
            "AQEShuffleReadExec");
    private static final Set<String> CHEAP = Set.of( // expressions that take less time than reading the value of a row
            "And", "Or", "Not", "EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual", "In",
            "InSet", "IsNull", "IsNotNull", "StartsWith", "AttributeReference", "Literal");

    private final Map<QueryPlanningTracker, String> decisions = new WeakHashMap<>();
    private final Deque<ScanTime> measured = new ArrayDeque<>();
    private final Map<Integer, String> running = new HashMap<>(); // the queries of running jobs
    private String latest = NONE; // the query of the job that ended last
    private long ended; // when it ended, in milliseconds
    private long othersEnded; // when a job of another query than the latest one ended for the last time

    /**
     * The time that a query took.
     *
     * @param decision the id of the decision on its scan
     * @param rows the rows that Spark's own scan has read, -1 if other rows were read
     */
    public record ScanTime(String decision, double seconds, long rows) {}

    /** Records the decision on a scan of the query that this thread plans. */
    public synchronized void decided(String decision) {
        Option<QueryPlanningTracker> query = QueryPlanningTracker.get();
        if (query.isDefined()) decisions.merge(query.get(), decision, (before, now) -> MANY);
    }

    /** Takes the measurements that no earlier call has taken. */
    public synchronized List<ScanTime> take() {
        List<ScanTime> taken = new ArrayList<>(measured);
        measured.clear();
        return taken;
    }

    @Override
    public synchronized void onJobStart(SparkListenerJobStart start) {
        if (running.size() >= MAX_JOBS) running.clear(); // Spark has dropped events
        boolean isOfQuery = start.properties() != null;
        running.put(start.jobId(), isOfQuery ? start.properties().getProperty(SQLExecution.EXECUTION_ID_KEY(), NONE) : NONE);
    }

    @Override
    public synchronized void onJobEnd(SparkListenerJobEnd end) {
        String query = running.remove(end.jobId());
        if (query == null) return;
        if (!query.equals(latest)) othersEnded = ended;
        latest = query;
        ended = end.time();
    }

    /** Returns whether a job of another query than this execution has run since a time in milliseconds. */
    private boolean hasRunOthers(String query, long since) {
        return !running.isEmpty() || (query.equals(latest) ? othersEnded : ended) >= since;
    }

    /**
     * Measures a query that has ended. It throws nothing, because Spark ends the application if a listener lacks a class or method.
     */
    @Override
    public void onOtherEvent(SparkListenerEvent event) {
        if (!(event instanceof SparkListenerSQLExecutionEnd end)) return;
        try {
            if (end.qe() != null && end.executionFailure().isEmpty()) measure(end, end.qe());
        } catch (Exception | LinkageError e) {
            LOG.debug("a query is not measured: {}", e.toString());
        }
    }

    private synchronized void measure(SparkListenerSQLExecutionEnd end, QueryExecution query) {
        String decision = decisions.get(query.tracker());
        if (decision == null || decision.equals(MANY)) return;
        long planned = Scala.javaMap(query.tracker().phases()).get("planning").endTimeMs();
        long began = Math.max(planned, end.time() - end.duration() / 1_000_000);
        double seconds = (end.time() - began) / 1e3;
        if (hasRunOthers(String.valueOf(end.executionId()), began)) return;
        List<SparkPlan> scans = new ArrayList<>();
        if (!isScanOnly(query.executedPlan(), scans) || scans.size() != 1) return;
        if (measured.size() >= MAX_MEASURED) measured.removeFirst();
        measured.add(new ScanTime(decision, seconds, rowsOfSpark(scans.get(0))));
    }

    /** Returns whether a plan does hardly more than scan. The scans in the plan are added to {@code scans}. */
    private static boolean isScanOnly(SparkPlan plan, List<SparkPlan> scans) {
        if (plan instanceof AdaptiveSparkPlanExec adaptive) return isScanOnly(adaptive.executedPlan(), scans);
        if (plan instanceof QueryStageExec stage) return isScanOnly(stage.plan(), scans);
        String name = plan.getClass().getSimpleName();
        if (!Scala.list(plan.subqueries()).isEmpty()) return false;
        if (SCANS.contains(name)) return scans.add(plan);
        if (!NODES.contains(name) || !name.equals("ColumnarToRowExec") && rows(plan) > MAX_ROWS) return false;
        if (plan instanceof FilterExec filter && !isCheap(filter.condition())) return false;
        return Scala.list(plan.children()).stream().allMatch(child -> isScanOnly(child, scans));
    }

    private static boolean isCheap(Expression condition) {
        return !condition.exists(Scala.predicate(node -> !CHEAP.contains(node.getClass().getSimpleName())));
    }

    /** Returns the rows that Spark's own scan has read; -1 if other rows were read. */
    private static long rowsOfSpark(SparkPlan scan) {
        SparkPlan reader = Scala.list(scan.children()).stream().findFirst().orElse(scan); // below a narrowed scan
        return reader instanceof FileSourceScanExec ? rows(reader) : -1;
    }

    /** Returns the rows that a node has passed on; 0 if the node does not count its rows. */
    private static long rows(SparkPlan plan) {
        SQLMetric metric = Scala.javaMap(plan.metrics()).get(ROWS);
        return metric == null ? 0 : (Long) metric.value();
    }
}
