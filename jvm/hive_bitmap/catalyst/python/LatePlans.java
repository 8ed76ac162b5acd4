package hive_bitmap.catalyst.python;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The shapes of queries that were planned too late. A shape is retried with exponential backoff: after a minute, then after twice
 * as long each time, up to an hour. If the first late call ran to its end, without a job that had to be cancelled, what it read is
 * in memory, and the shape may be retried at once.
 */
public final class LatePlans {
    private static final int MAX_ENTRIES = 1_000;
    private static final long SECOND = 1_000_000_000L;
    private static final long BUSY_PAUSE = 5 * SECOND;
    private static final long FIRST_PAUSE = 60 * SECOND;
    private static final long LONGEST_PAUSE = 3600 * SECOND;
    private static final Map<Object, Late> KNOWN = new LinkedHashMap<>(16, 0.75f, true);

    static {
        CurrentContext.atEnd(LatePlans::clear);
    }

    private LatePlans() {}

    /** How often planning was late, and the {@code System.nanoTime()} before which it is not retried. */
    private record Late(int times, long until) {}

    /** Returns the seconds until a shape may be planned; 0 if it may be now. */
    public static double wait(List<?> shape) {
        synchronized (KNOWN) {
            Late late = KNOWN.get(shape);
            return late == null ? 0 : Math.max(0, (late.until - System.nanoTime()) / (double) SECOND);
        }
    }

    /**
     * Records that planning was late. Returns the seconds until a retry: few if planning may have been late only because Python was
     * {@code busy} with other queries.
     */
    public static double add(List<?> shape, boolean busy) {
        synchronized (KNOWN) {
            Late before = KNOWN.get(shape);
            if (busy && (before == null || before.times == 0)) {
                KNOWN.put(shape, new Late(0, System.nanoTime() + BUSY_PAUSE));
                return BUSY_PAUSE / (double) SECOND;
            }
            int times = before == null ? 1 : before.times + 1;
            long pause = times > 6 ? LONGEST_PAUSE : FIRST_PAUSE << (times - 1);
            KNOWN.put(shape, new Late(times, System.nanoTime() + pause));
            for (Iterator<Object> eldest = KNOWN.keySet().iterator(); KNOWN.size() > MAX_ENTRIES; ) {
                eldest.next();
                eldest.remove();
            }
            return pause / (double) SECOND;
        }
    }

    /** Records that a late call has ended by itself. */
    public static void ended(List<?> shape) {
        synchronized (KNOWN) {
            Late late = KNOWN.get(shape);
            if (late != null && late.times == 1) KNOWN.put(shape, new Late(1, System.nanoTime()));
        }
    }

    /** Removes all entries. Call it when another Python answers or the user has enabled indexes again. */
    static void clear() {
        synchronized (KNOWN) {
            KNOWN.clear();
        }
    }
}
