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
 * The Python process that decides. It is asked in threads of its own, so that a query waits no longer than it may; what
 * Spark does there for planning is not asked about again.
 */
public final class Planner {
    private static final int MOST_AT_ONCE = 16;
    private static final String EXECUTION = "spark.sql.execution.id";
    private static final ThreadLocal<Boolean> PLANNING = ThreadLocal.withInitial(() -> false);
    private static final ExecutorService THREADS = new ThreadPoolExecutor(
            0, MOST_AT_ONCE, 60, TimeUnit.SECONDS, new SynchronousQueue<>(), Planner::thread);
    private static final ExecutorService THREADS_AT_LEISURE = Executors.newCachedThreadPool(Planner::thread);
    private static volatile BiFunction<Object, Object, Object> python;
    private static volatile BiFunction<Object, Object, Object> helper;
    private static volatile boolean off;

    private Planner() {}

    /** From now on the Python of the driver answers: a function of a session and what is asked, as a {@link Question}. */
    public static void register(BiFunction<Object, Object, Object> answers) {
        off = false;
        python = answers;
        Helper.stop();
        IndexedColumns.clear();
    }

    /** From now on the process that was started for it answers, where the driver's own Python does not; null: nobody. */
    static void attach(BiFunction<Object, Object, Object> answers) {
        helper = answers;
        IndexedColumns.clear();
    }

    /** From now on nobody answers, and plans are Spark's own. */
    public static void unregister() {
        off = true;
        python = null;
        Helper.stop();
    }

    public static boolean isAbsent() {
        return answers() == null;
    }

    public static boolean isServedByHelper() {
        return python == null && helper != null;
    }

    /** Whether nobody is to be asked. */
    public static boolean isOff() {
        return off;
    }

    private static BiFunction<Object, Object, Object> answers() {
        BiFunction<Object, Object, Object> own = python;
        return own == null ? helper : own;
    }

    public static boolean isPlanning() {
        return PLANNING.get();
    }

    /** Have Python answer a question; one that is late or fails stays without answers. */
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

    /** What Python says to {@code asked}, in a thread in which the session is the active one. */
    static Future<Object> call(SparkSession session, Object asked) {
        return call(session, asked, THREADS);
    }

    /** The same of what may take long, a statement: planning is not kept waiting by how many there are. */
    public static Future<Object> callAtLeisure(SparkSession session, Object asked) {
        return call(session, asked, THREADS_AT_LEISURE);
    }

    private static Future<Object> call(SparkSession session, Object asked, ExecutorService threads) {
        BiFunction<Object, Object, Object> answers = answers();
        if (answers == null) throw new IllegalStateException("no Python process answers");
        SparkContext context = session.sparkContext();
        Properties properties = SerializationUtils.clone(context.getLocalProperties());
        properties.remove(EXECUTION);
        return threads.submit(() -> {
            PLANNING.set(true);
            SparkSession.setActiveSession(session);
            context.setLocalProperties(properties);
            try {
                return answers.apply(session, asked);
            } finally {
                PLANNING.set(false);
                SparkSession.clearActiveSession();
                context.setLocalProperties(new Properties());
            }
        });
    }

    /** Do something of which nothing is asked: a part of what is being answered. */
    static <T> T quietly(java.util.function.Supplier<T> work) {
        boolean before = PLANNING.get();
        PLANNING.set(true);
        try {
            return work.get();
        } finally {
            PLANNING.set(before);
        }
    }

    public static String report(String reason, String detail) {
        return report("", reason, detail);
    }

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
