package hive_bitmap.catalyst.spark;

import java.util.Collections;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.sql.SparkSession;

/** How many commands each session has begun, by which a query knows later whether its session may have written a table since. */
public final class Commands {
    private static final Map<SparkSession, Long> BEGUN = Collections.synchronizedMap(new WeakHashMap<>());

    private Commands() {}

    /** Called when a command is optimized, before it is executed. */
    public static void begin(SparkSession session) {
        BEGUN.merge(session, 1L, Long::sum);
    }

    public static long begun(SparkSession session) {
        return BEGUN.getOrDefault(session, 0L);
    }
}
