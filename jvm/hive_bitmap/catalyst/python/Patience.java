package hive_bitmap.catalyst.python;

import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.LongSupplier;
import org.apache.spark.SparkContext;

/**
 * A timeout for planning that stretches while Spark is busy. While other jobs run, time counts less, because Spark's own scan
 * would also have to wait for them: with one job per core, a second counts as half a second. If Python hangs, the other jobs come
 * to an end and time counts in full. The time in which Spark lists the files of a scan does not count: without an index Spark would
 * list them, too.
 */
public final class Patience {
    private static final double STEP = 0.05; // seconds between two checks of the jobs
    private static final double MOST_SLOWNESS = 10;

    private Patience() {}

    /**
     * Waits for the result of a call. Throws TimeoutException after {@code seconds}, or later while other jobs run. {@code listing}
     * returns the nanoseconds that Spark has spent on listing files for the call.
     */
    public static <T> T await(Future<T> call, SparkContext context, double seconds, LongSupplier listing)
            throws InterruptedException, ExecutionException, TimeoutException {
        double remaining = seconds;
        while (true) {
            long began = System.nanoTime() - listing.getAsLong();
            try {
                return call.get((long) (Math.min(remaining, STEP) * 1e9), TimeUnit.NANOSECONDS);
            } catch (TimeoutException e) {
                remaining -= Math.max(System.nanoTime() - listing.getAsLong() - began, 0) / 1e9 / slowness(context);
                if (remaining <= 0) throw e;
            }
        }
    }

    /** Estimates the slowdown of a job by the running jobs: how many times longer it takes if it shares the cores with them. */
    static double slowness(SparkContext context) {
        double jobsPerCore = context.dagScheduler().activeJobs().size() / (double) Math.max(context.defaultParallelism(), 1);
        return Math.min(1 + jobsPerCore, MOST_SLOWNESS);
    }
}
