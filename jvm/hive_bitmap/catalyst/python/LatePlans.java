package hive_bitmap.catalyst.python;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Conditions whose planning was late. They are not tried again soon: the first time after a minute, then after twice as long
 * each time, an hour at most. A first call that was late and went on to its end, without a job that had to be cancelled, has
 * left in memory what it read, and may be tried again at once.
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

    /** How often planning was late, and the {@code System.nanoTime()} before which it is not tried again. */
    private record Late(int times, long until) {}

    /** Returns the seconds after which a plan may be tried again; 0 if it may be now. {@code shape} says what was planned. */
    public static double wait(List<?> shape) {
        synchronized (KNOWN) {
            Late late = KNOWN.get(shape);
            return late == null ? 0 : Math.max(0, (late.until - System.nanoTime()) / (double) SECOND);
        }
    }

    /**
     * Remembers that a plan was late; returns the seconds after which it may be tried again: soon, if it may have been late only
     * because Python was {@code busy} with others.
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

    /** The late call of a plan has ended by itself. */
    public static void ended(List<?> shape) {
        synchronized (KNOWN) {
            Late late = KNOWN.get(shape);
            if (late != null && late.times == 1) KNOWN.put(shape, new Late(1, System.nanoTime()));
        }
    }

    /** Forgets all, since another Python answers, or the user has enabled indexes anew. */
    static void clear() {
        synchronized (KNOWN) {
            KNOWN.clear();
        }
    }
}
