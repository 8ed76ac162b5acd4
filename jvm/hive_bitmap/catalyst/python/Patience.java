package hive_bitmap.catalyst.python;

import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.spark.SparkContext;

/**
 * How long a query waits for its plan. While others' jobs run, time counts for less, as Spark's own scan would have to wait for
 * them too: a second beside one job a core counts as half a second. Where Python hangs, these jobs come to an end, and time counts
 * in full.
 */
public final class Patience {
    private static final double STEP = 0.05; // seconds between two looks at the jobs
    private static final double MOST_SLOWNESS = 10;

    private Patience() {}

    /**
     * Returns what a call returns. Throws TimeoutException if it has not come in the time that is this many seconds where no job
     * runs.
     */
    public static <T> T await(Future<T> call, SparkContext context, double seconds)
            throws InterruptedException, ExecutionException, TimeoutException {
        double left = seconds;
        while (true) {
            long began = System.nanoTime();
            try {
                return call.get((long) (Math.min(left, STEP) * 1e9), TimeUnit.NANOSECONDS);
            } catch (TimeoutException e) {
                left -= (System.nanoTime() - began) / 1e9 / slowness(context);
                if (left <= 0) throw e;
            }
        }
    }

    /** How many times longer a job takes than alone, if it shares the cores with those that run now. */
    static double slowness(SparkContext context) {
        double each = context.dagScheduler().activeJobs().size() / (double) Math.max(context.defaultParallelism(), 1);
        return Math.min(1 + each, MOST_SLOWNESS);
    }
}
