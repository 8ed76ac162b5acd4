package hive_bitmap.catalyst.python;

import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;

/**
 * How many plans are made at the same time: few, since one Python process makes them, and more would make each of them late. A
 * query for which there will be no slot in a moment is Spark's at once.
 */
public final class PlanningSlots {
    private static final int SLOTS = 4;
    private static final double LONGEST_WAIT = 0.3; // seconds, where no job runs
    private static final double LONGEST_PLAN = 1; // seconds; one that is late must not keep the others away for long
    private static final double WEIGHT = 0.1; // of the last plan in the mean of all
    private static final Semaphore FREE = new Semaphore(SLOTS, true);
    private static volatile double seconds = 0.05; // that a plan takes, in the mean

    private PlanningSlots() {}

    /** Takes a slot, for which this thread waits a moment if others are about to be done. Returns whether there is one. */
    public static boolean acquire(SparkContext context) throws InterruptedException {
        double wait = LONGEST_WAIT * Patience.slowness(context);
        if ((FREE.getQueueLength() + 1) * seconds / SLOTS > wait) return FREE.tryAcquire();
        return FREE.tryAcquire((long) (wait * 1e9), TimeUnit.NANOSECONDS);
    }

    /** Gives a slot back, in which a plan took so many seconds. */
    public static void release(double took) {
        seconds += WEIGHT * (Math.min(took, LONGEST_PLAN) - seconds);
        FREE.release();
    }

    /** Whether many plans are made at the same time: one that is late then may be late for that alone. */
    public static boolean areCrowded() {
        return FREE.availablePermits() <= SLOTS / 2;
    }
}
