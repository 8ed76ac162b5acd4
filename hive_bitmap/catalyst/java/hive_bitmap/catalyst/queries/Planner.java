package hive_bitmap.catalyst.queries;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.util.Properties;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BiFunction;
import org.apache.commons.lang3.SerializationUtils;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.internal.SQLConf;

/**
 * Calls Python, either the driver's own or the process of {@link Helper}. Calls run in separate threads, so that a query
 * waits no longer than its settings allow. In these threads the rule does nothing, so that queries that Python runs in order
 * to answer do not ask Python in turn.
 */
public final class Planner {
    private static final int MAX_CALLS = 16;
    private static final String EXECUTION_ID = "spark.sql.execution.id";
    private static final ThreadLocal<Boolean> PLANNING = ThreadLocal.withInitial(() -> false);
    private static final ExecutorService PLANNING_THREADS = new ThreadPoolExecutor(
            0, MAX_CALLS, 60, TimeUnit.SECONDS, new SynchronousQueue<>(), Planner::thread);
    private static final ExecutorService STATEMENT_THREADS = Executors.newCachedThreadPool(Planner::thread);
    private static volatile BiFunction<Object, Object, Object> python;
    private static volatile BiFunction<Object, Object, Object> helper;
    private static volatile boolean off;

    private Planner() {}

    /** Lets the driver's own Python answer: a function of a session and a request, such as a {@link Question}. */
    public static void register(BiFunction<Object, Object, Object> answers) {
        off = false;
        python = answers;
        Helper.stop();
        IndexedColumns.clear();
    }

    /** Lets the helper process answer if the driver's own Python does not; null if the process has ended. */
    static void attach(BiFunction<Object, Object, Object> answers) {
        helper = answers;
        IndexedColumns.clear();
    }

    /** Switches indexes off until {@link #register} is called: plans are Spark's own, and the helper is not started. */
    public static void unregister() {
        off = true;
        python = null;
        Helper.stop();
    }

    /** Whether there is no Python that answers. */
    public static boolean isAbsent() {
        return answers() == null;
    }

    public static boolean isServedByHelper() {
        return python == null && helper != null;
    }

    /** Whether indexes are switched off by {@link #unregister}. */
    public static boolean isOff() {
        return off;
    }

    private static BiFunction<Object, Object, Object> answers() {
        BiFunction<Object, Object, Object> own = python;
        return own == null ? helper : own;
    }

    /** Whether this thread runs a call of Python or other work for the rule, in which the rule must do nothing. */
    public static boolean isPlanning() {
        return PLANNING.get();
    }

    /**
     * Has Python answer a question. Answers after {@code hive_bitmap.planning_seconds} are ignored, unless the session is
     * strict. Throws IllegalStateException if Python fails.
     */
    public static void ask(SparkSession session, Question question, Settings settings) {
        if (!settings.strict() && settings.planningSeconds() <= 0) {
            Reports.late(settings.planningSeconds());
            return;
        }
        Future<?> asked;
        try {
            asked = call(session, question);
        } catch (RejectedExecutionException e) {
            Reports.late(0);
            return;
        }
        try {
            if (settings.strict()) asked.get();
            else asked.get((long) (settings.planningSeconds() * 1e9), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            Reports.late(settings.planningSeconds());
        } catch (InterruptedException e) {
            asked.cancel(true);
            Thread.currentThread().interrupt();
        } catch (ExecutionException | CancellationException e) {
            throw new IllegalStateException(e.getCause() == null ? e : e.getCause());
        } finally {
            question.close();
        }
    }

    /** Calls Python for planning, in a thread whose active session is this one. Rejected if too many calls are running. */
    static Future<Object> call(SparkSession session, Object request) {
        return call(session, request, PLANNING_THREADS);
    }

    /** Calls Python for an index statement. Statements may take long, so they have threads of their own, without a limit. */
    public static Future<Object> callStatement(SparkSession session, Object request) {
        return call(session, request, STATEMENT_THREADS);
    }

    private static Future<Object> call(SparkSession session, Object request, ExecutorService threads) {
        BiFunction<Object, Object, Object> answers = answers();
        if (answers == null) throw new IllegalStateException("no Python process answers");
        SparkContext context = session.sparkContext();
        Properties properties = SerializationUtils.clone(context.getLocalProperties());
        properties.remove(EXECUTION_ID); // what Python runs is a query of its own
        return threads.submit(() -> {
            PLANNING.set(true);
            SparkSession.setActiveSession(session);
            context.setLocalProperties(properties);
            try {
                return answers.apply(session, request);
            } finally {
                PLANNING.set(false);
                SparkSession.clearActiveSession();
                context.setLocalProperties(new Properties());
            }
        });
    }

    /** Does work in which the rule does nothing, since it executes a part of what the rule is replacing. */
    static <T> T withoutRule(java.util.function.Supplier<T> work) {
        boolean before = PLANNING.get();
        PLANNING.set(true);
        try {
            return work.get();
        } finally {
            PLANNING.set(before);
        }
    }

    /** Returns the report of a query that is left alone. */
    public static String report(String reason, String detail) {
        return report("", reason, detail);
    }

    /** Returns the report of a scan of a table that is left alone. */
    public static String report(String table, String reason, String detail) {
        return JsonNodeFactory.instance.objectNode()
                .put("table", table).put("action", "left alone").put("reason", reason).put("detail", detail).toString();
    }

    private static Thread thread(Runnable work) {
        Thread thread = new Thread(work, "hive_bitmap-planner");
        thread.setDaemon(true);
        return thread;
    }
}
