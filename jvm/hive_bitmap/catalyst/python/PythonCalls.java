package hive_bitmap.catalyst.python;

import hive_bitmap.catalyst.spark.SideQuery;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BiFunction;
import org.apache.commons.lang3.SerializationUtils;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;

/**
 * Calls Python: the driver's own, or the process of {@link Helper}. Calls run in separate threads, so that a query waits no longer
 * than its settings allow. The queries that Python runs in these threads are {@link SideQuery}s.
 */
public final class PythonCalls {
    private static final int MAX_CALLS = 64; // threads, in which late plans wait for each other
    private static final String EXECUTION_ID = "spark.sql.execution.id";
    private static final String JOB_GROUP = "spark.jobGroup.id";
    private static final String JOB_DESCRIPTION = "spark.job.description";
    private static final String INTERRUPT_ON_CANCEL = "spark.job.interruptOnCancel";
    private static final Semaphore BACKGROUND = new Semaphore(16); // questions that no query waits for
    private static volatile Threads threads = new Threads();
    private static volatile BiFunction<Object, Object, Object> python;
    private static volatile BiFunction<Object, Object, Object> helper;
    private static volatile boolean off;
    private static volatile boolean chosenOnly;

    static {
        CurrentContext.atEnd(PythonCalls::forget);
    }

    /**
     * The threads of one application. They end with the application, because Hive keeps an embedded metastore for each thread, even
     * if Spark opens another one.
     */
    private record Threads(ExecutorService planning, ExecutorService unlimited) {
        Threads() {
            this(new ThreadPoolExecutor(0, MAX_CALLS, 60, TimeUnit.SECONDS, new SynchronousQueue<>(), PythonCalls::thread),
                    Executors.newCachedThreadPool(PythonCalls::thread));
        }

        void end() {
            planning.shutdown();
            unlimited.shutdown();
        }
    }

    private PythonCalls() {}

    /**
     * Lets the driver's own Python answer for all queries and statements. {@code answers} is a function of a session and a
     * request, such as a {@link PythonRequest}.
     */
    public static synchronized void register(BiFunction<Object, Object, Object> answers) {
        off = false;
        chosenOnly = false;
        python = answers;
        answererChanged();
    }

    /**
     * Lets the driver's own Python answer only for DataFrames of {@code hive_bitmap.scan} and similar functions. Other queries and
     * statements remain Spark's. If this Python answers already, nothing changes.
     */
    public static synchronized void registerForChosen(BiFunction<Object, Object, Object> answers) {
        if (python != null) return;
        chosenOnly = true;
        python = answers;
        answererChanged();
    }

    /** Forgets the verdicts and late plans of another Python. */
    private static void answererChanged() {
        Verdicts.indexesChanged();
        PlanningGate.clear();
    }

    /** Returns whether Python answers for the DataFrames of {@link #registerForChosen} only. */
    public static boolean isForChosen() {
        return chosenOnly;
    }

    /** Lets the helper process answer if the driver's own Python does not; null if the process has ended. */
    static void attach(BiFunction<Object, Object, Object> answers) {
        helper = answers;
        answererChanged();
    }

    /** Switches indexes off until {@link #register} is called: plans are Spark's own, and the helper is not started. */
    public static synchronized void unregister() {
        off = true;
        python = null;
        chosenOnly = false;
    }

    private static synchronized void forget() {
        unregister();
        off = false;
        helper = null;
        threads.end();
        threads = new Threads();
    }

    /** Returns whether no Python answers for all queries. */
    public static boolean isAbsent() {
        return chosenOnly || answers() == null;
    }

    public static boolean isAnsweredByDriver() {
        return python != null;
    }

    static boolean isServedByHelper() {
        return python == null && helper != null;
    }

    /** Returns whether indexes are switched off by {@link #unregister}. */
    public static boolean isOff() {
        return off;
    }

    /**
     * Returns the function by which Python answers: that of the driver's Python, else that of the helper; null if there is neither.
     */
    private static BiFunction<Object, Object, Object> answers() {
        BiFunction<Object, Object, Object> driverPython = python;
        return driverPython == null ? helper : driverPython;
    }

    /**
     * A call of Python for planning. Its jobs form a group, so that they can be cancelled without the query's jobs.
     *
     * @param result the answer of Python
     * @param group the group of the jobs
     */
    public record Planning(Future<Object> result, SparkContext context, String group) {
        /**
         * Cancels the jobs of the call, and its future jobs. Its thread is not interrupted, because metastores and stores may not
         * handle interrupts: Python goes on until it needs the next job.
         */
        public void cancelJobs() {
            context.cancelJobGroupAndFutureJobs(group, "hive_bitmap does not wait for them any longer");
        }
    }

    /** Calls Python to decide on the scans of a query. Throws RejectedExecutionException if too many calls are running. */
    public static Planning plan(SparkSession session, Object request) {
        String group = "hive_bitmap-planning-" + UUID.randomUUID();
        Properties properties = properties(session);
        properties.setProperty(JOB_GROUP, group);
        properties.setProperty(JOB_DESCRIPTION, "hive_bitmap looks up keys to plan a query");
        properties.setProperty(INTERRUPT_ON_CANCEL, "true");
        return new Planning(call(session, request, threads.planning, properties, () -> {}), session.sparkContext(), group);
    }

    /**
     * Has Python decide on a question that no query waits for, without jobs of Spark. The question is dropped if many others are
     * waiting.
     */
    public static void planInBackground(SparkSession session, PythonRequest question) {
        if (!BACKGROUND.tryAcquire()) return;
        Properties properties = properties(session);
        String group = "hive_bitmap-background-" + UUID.randomUUID();
        properties.setProperty(JOB_GROUP, group);
        session.sparkContext().cancelJobGroupAndFutureJobs(group, "no query waits for this plan");
        try {
            call(session, question, threads.planning, properties, BACKGROUND::release);
        } catch (RejectedExecutionException | IllegalStateException e) { // too many calls, or Python has just ended
            BACKGROUND.release();
        }
    }

    /** Calls Python for an index statement. Statements may take long, so their threads are not limited. */
    public static Future<Object> callStatement(SparkSession session, Object request) {
        return call(session, request, threads.unlimited, properties(session), () -> {});
    }

    /** Calls Python to carry out a decision. There are at most as many such calls as running queries. */
    public static Future<Object> execute(SparkSession session, PythonRequest request) {
        return call(session, request, threads.unlimited, properties(session), () -> {});
    }

    /**
     * Waits for the result of a call. Throws IllegalStateException if Python fails or takes longer than {@code seconds}. {@code
     * done} is the participle for the message, such as "counted".
     */
    public static Object result(Future<Object> call, double seconds, String done) {
        try {
            return call.get((long) (seconds * 1e9), TimeUnit.NANOSECONDS);
        } catch (InterruptedException e) {
            call.cancel(true);
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", e);
        } catch (TimeoutException e) {
            throw new IllegalStateException("Python has not " + done + " in " + seconds + " s", e);
        } catch (ExecutionException e) {
            throw new IllegalStateException(e.getCause());
        }
    }

    private static Properties properties(SparkSession session) {
        Properties properties = SerializationUtils.clone(session.sparkContext().getLocalProperties());
        properties.remove(EXECUTION_ID); // what Python runs is a separate query
        return properties;
    }

    private static Future<Object> call(
            SparkSession session, Object request, ExecutorService threads, Properties properties, Runnable atEnd) {
        BiFunction<Object, Object, Object> answers = answers();
        if (answers == null) throw new IllegalStateException("no Python process answers");
        Caller caller = Caller.current();
        return threads.submit(() -> {
            try {
                return caller.run(() -> answered(session, request, answers, properties));
            } finally {
                atEnd.run();
            }
        });
    }

    /**
     * Has Python answer a request in this thread. During the call, {@code session} is the active session, and {@code properties}
     * are the thread's local properties.
     */
    private static Object answered(
            SparkSession session, Object request, BiFunction<Object, Object, Object> answers, Properties properties) {
        SparkContext context = session.sparkContext();
        SparkSession.setActiveSession(session);
        context.setLocalProperties(properties);
        try {
            Object answer = SideQuery.within(() -> answers.apply(session, request));
            if (request instanceof PythonRequest pythonRequest) pythonRequest.answered(answer);
            return answer;
        } finally {
            SparkSession.clearActiveSession();
            context.setLocalProperties(new Properties());
        }
    }

    private static Thread thread(Runnable work) {
        Thread thread = new Thread(work, "hive_bitmap-planner");
        thread.setDaemon(true);
        return thread;
    }
}
