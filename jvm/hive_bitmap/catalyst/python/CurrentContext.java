package hive_bitmap.catalyst.python;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;

/**
 * The SparkContext for which this JVM knows what it knows. A program may stop Spark and start it again in one JVM, with
 * another metastore and other settings; what the classes of this jar keep must not be taken for true there.
 */
public final class CurrentContext {
    private static final List<Runnable> AT_END = new CopyOnWriteArrayList<>();
    private static SparkContext current;

    private CurrentContext() {}

    /** Has something forgotten whenever a SparkContext ends. Called once by each class that keeps what one depends on. */
    public static void atEnd(Runnable forget) {
        AT_END.add(forget);
    }

    /** Has all forgotten that was known in another SparkContext, and in this one when it ends. */
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
