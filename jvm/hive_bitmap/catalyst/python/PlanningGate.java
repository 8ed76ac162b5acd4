package hive_bitmap.catalyst.python;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.LongSupplier;
import org.apache.spark.SparkContext;

/**
 * Decides whether and how long a query waits for Python's plan. One Python process makes all plans, so only a few are made at a
 * time. A query waits {@code hive_bitmap.planning_seconds} for its plan; while Spark is busy, it waits longer. If plans of a shape
 * of queries were late, the shape is not planned again for a while: for a minute after the first late plan, then for twice as long
 * each time, up to an hour.
 */
public final class PlanningGate {
    private static final int SLOTS = 4;
    private static final double LONGEST_WAIT = 0.3; // seconds for a slot, if no job runs
    private static final double LONGEST_PLAN = 1; // seconds; caps what a late plan adds to the mean
    private static final double WEIGHT = 0.1; // weight of the last plan in the moving mean
    private static final double STEP = 0.05; // seconds between two checks of the running jobs
    private static final double MOST_SLOWNESS = 10;
    private static final int MAX_SHAPES = 1_000;
    private static final long SECOND = 1_000_000_000L;
    private static final long BUSY_PAUSE = 5 * SECOND;
    private static final long FIRST_PAUSE = 60 * SECOND;
    private static final long LONGEST_PAUSE = 3600 * SECOND;
    private static final Semaphore FREE = new Semaphore(SLOTS, true);
    private static final Map<Object, Late> LATE = new LinkedHashMap<>(16, 0.75f, true); // by shape
    private static volatile double seconds = 0.05; // the moving mean of the time of a plan

    static {
        CurrentContext.atEnd(PlanningGate::clear);
    }

    private PlanningGate() {}

    /** The number of late plans of a shape, and the {@code System.nanoTime()} before which the shape is not planned again. */
    private record Late(int times, long until) {}

    /** Takes a slot; returns whether it has got one. Waits a moment if a slot is likely to be released. */
    public static boolean enter(SparkContext context) throws InterruptedException {
        double wait = LONGEST_WAIT * slowness(context);
        if ((FREE.getQueueLength() + 1) * seconds / SLOTS > wait) return FREE.tryAcquire();
        return FREE.tryAcquire((long) (wait * SECOND), TimeUnit.NANOSECONDS);
    }

    /** Releases a slot. {@code planSeconds} is how long it took to make the plan. */
    public static void leave(double planSeconds) {
        seconds += WEIGHT * (Math.min(planSeconds, LONGEST_PLAN) - seconds);
        FREE.release();
    }

    /** Returns whether many plans are being made, so that a plan may be late for this reason alone. */
    public static boolean isCrowded() {
        return FREE.availablePermits() <= SLOTS / 2;
    }

    /**
     * Waits for a plan. Throws TimeoutException after {@code seconds}, or later in two cases. While other jobs run, time counts
     * less, because Spark's own scan would also have to wait for them: with one job per core, a second counts as half a second. (If
     * Python hangs, the other jobs come to an end, and time counts in full.) And the nanoseconds that Spark has spent on listing
     * files for the plan ({@code listing}) do not count, because Spark lists them without an index, too.
     */
    public static <T> T await(Future<T> plan, SparkContext context, double seconds, LongSupplier listing)
            throws InterruptedException, ExecutionException, TimeoutException {
        double remaining = seconds;
        while (true) {
            long began = System.nanoTime() - listing.getAsLong();
            try {
                return plan.get((long) (Math.min(remaining, STEP) * SECOND), TimeUnit.NANOSECONDS);
            } catch (TimeoutException e) {
                remaining -= Math.max(System.nanoTime() - listing.getAsLong() - began, 0) / (double) SECOND / slowness(context);
                if (remaining <= 0) throw e;
            }
        }
    }

    /** Estimates by what factor a job takes longer because it shares the cores with the running jobs. */
    private static double slowness(SparkContext context) {
        double jobsPerCore = context.dagScheduler().activeJobs().size() / (double) Math.max(context.defaultParallelism(), 1);
        return Math.min(1 + jobsPerCore, MOST_SLOWNESS);
    }

    /** Returns the seconds until a shape may be planned; 0 if it may be planned now. */
    public static double pause(List<?> shape) {
        synchronized (LATE) {
            Late late = LATE.get(shape);
            return late == null ? 0 : Math.max(0, (late.until - System.nanoTime()) / (double) SECOND);
        }
    }

    /**
     * Records that a plan was late. Returns the seconds until a retry. These are few if the plan may have been late only because
     * Python was {@code busy} with other queries.
     */
    public static double late(List<?> shape, boolean busy) {
        synchronized (LATE) {
            Late before = LATE.get(shape);
            if (busy && (before == null || before.times == 0)) {
                LATE.put(shape, new Late(0, System.nanoTime() + BUSY_PAUSE));
                return BUSY_PAUSE / (double) SECOND;
            }
            int times = before == null ? 1 : before.times + 1;
            long pause = times > 6 ? LONGEST_PAUSE : FIRST_PAUSE << (times - 1);
            LATE.put(shape, new Late(times, System.nanoTime() + pause));
            for (Iterator<Object> eldest = LATE.keySet().iterator(); LATE.size() > MAX_SHAPES; ) {
                eldest.next();
                eldest.remove();
            }
            return pause / (double) SECOND;
        }
    }

    /**
     * Records that a late plan was completed, without a job that had to be cancelled. After the first late plan the shape may then
     * be planned again at once, because the data that planning reads is now in memory.
     */
    public static void ended(List<?> shape) {
        synchronized (LATE) {
            Late late = LATE.get(shape);
            if (late != null && late.times == 1) LATE.put(shape, new Late(1, System.nanoTime()));
        }
    }

    /** Removes the records of late plans; to be called when another Python answers, or the user has enabled indexes again. */
    static void clear() {
        synchronized (LATE) {
            LATE.clear();
        }
    }
}
