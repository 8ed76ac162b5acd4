package hive_bitmap.catalyst.python;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;

/**
 * The SparkContext that the caches of this jar belong to. A program may stop Spark and start it again in one JVM, with another
 * metastore and other settings, so the caches of one context must not be used in the next.
 */
public final class CurrentContext {
    private static final List<Runnable> AT_END = new CopyOnWriteArrayList<>();
    private static SparkContext current;

    private CurrentContext() {}

    /**
     * Registers an action to run whenever a SparkContext ends. Each class with a cache that depends on the context registers one.
     */
    public static void atEnd(Runnable action) {
        AT_END.add(action);
    }

    /** Sets the current SparkContext. The caches of another context are cleared now, those of this context when it ends. */
    public static synchronized void is(SparkContext context) {
        if (context == current) return;
        forget();
        current = context;
        context.addSparkListener(new SparkListener() {
            @Override
            public void onApplicationEnd(SparkListenerApplicationEnd ended) {
                end(context);
            }
        });
    }

    private static synchronized void end(SparkContext context) {
        if (context != current) return;
        forget();
        current = null;
    }

    private static void forget() {
        AT_END.forEach(Runnable::run);
    }
}
