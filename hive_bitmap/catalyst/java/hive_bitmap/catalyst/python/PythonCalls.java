package hive_bitmap.catalyst.python;

import hive_bitmap.catalyst.spark.SideQuery;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import org.apache.commons.lang3.SerializationUtils;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;

/**
 * Calls Python, either the driver's own or the process that {@code Helper} starts. Calls run in separate threads, so that a
 * query waits no longer than its settings allow. What Python runs in them in order to answer are {@link SideQuery}s.
 */
public final class PythonCalls {
    private static final int MAX_CALLS = 16;
    private static final String EXECUTION_ID = "spark.sql.execution.id";
    private static final ExecutorService PLANNING_THREADS = new ThreadPoolExecutor(
            0, MAX_CALLS, 60, TimeUnit.SECONDS, new SynchronousQueue<>(), PythonCalls::thread);
    private static final ExecutorService STATEMENT_THREADS = Executors.newCachedThreadPool(PythonCalls::thread);
    private static volatile BiFunction<Object, Object, Object> python;
    private static volatile BiFunction<Object, Object, Object> helper;
    private static volatile boolean off;

    private PythonCalls() {}

    /** Lets the driver's own Python answer: a function of a session and a request, such as a {@link PythonRequest}. */
    public static void register(BiFunction<Object, Object, Object> answers) {
        off = false;
        python = answers;
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
    }

    /** Whether there is no Python that answers. */
    public static boolean isAbsent() {
        return answers() == null;
    }

    static boolean isServedByHelper() {
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

    /** Calls Python for planning, in a thread whose active session is this one. Rejected if too many calls are running. */
    public static Future<Object> call(SparkSession session, Object request) {
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
            SparkSession.setActiveSession(session);
            context.setLocalProperties(properties);
            try {
                return SideQuery.within(() -> answers.apply(session, request));
            } finally {
                SparkSession.clearActiveSession();
                context.setLocalProperties(new Properties());
            }
        });
    }

    private static Thread thread(Runnable work) {
        Thread thread = new Thread(work, "hive_bitmap-planner");
        thread.setDaemon(true);
        return thread;
    }
}
