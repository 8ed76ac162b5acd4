package hive_bitmap.catalyst.python;

import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;

/**
 * Limits how many plans are made at the same time. There are few slots, since one Python process makes all plans, and more of them
 * would make each late. A query that would have to wait too long for a slot is left to Spark at once.
 */
public final class PlanningSlots {
    private static final int SLOTS = 4;
    private static final double LONGEST_WAIT = 0.3; // seconds, if no job runs
    private static final double LONGEST_PLAN = 1; // seconds; caps what a late plan adds to the mean, so that it does not turn others away for long
    private static final double WEIGHT = 0.1; // of the last plan in the moving mean
    private static final Semaphore FREE = new Semaphore(SLOTS, true);
    private static volatile double seconds = 0.05; // the moving mean of what a plan takes

    private PlanningSlots() {}

    /** Takes a slot; waits a moment if others are about to be released. Returns whether it has a slot. */
    public static boolean acquire(SparkContext context) throws InterruptedException {
        double wait = LONGEST_WAIT * Patience.slowness(context);
        if ((FREE.getQueueLength() + 1) * seconds / SLOTS > wait) return FREE.tryAcquire();
        return FREE.tryAcquire((long) (wait * 1e9), TimeUnit.NANOSECONDS);
    }

    /** Releases a slot. {@code planSeconds} is how long the plan took. */
    public static void release(double planSeconds) {
        seconds += WEIGHT * (Math.min(planSeconds, LONGEST_PLAN) - seconds);
        FREE.release();
    }

    /** Returns whether many plans are being made. A plan may then be late for that reason alone. */
    public static boolean areCrowded() {
        return FREE.availablePermits() <= SLOTS / 2;
    }
}
