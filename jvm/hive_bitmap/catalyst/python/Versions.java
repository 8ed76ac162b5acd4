package hive_bitmap.catalyst.python;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Gives versions to values: equal values have the same version, as long as they are among the most recently used values. Different
 * values never have the same version, not even in two JVMs. A hash is no such version, because different texts may easily have the
 * same hash.
 */
public final class Versions<T> {
    private static final String PROCESS = UUID.randomUUID().toString();
    private static final AtomicLong LAST = new AtomicLong();
    private final Map<T, String> versions = new LinkedHashMap<>(16, 0.75f, true);
    private final int maxValues;

    public Versions(int maxValues) {
        this.maxValues = maxValues;
    }

    /** Returns the version of a value. */
    public synchronized String of(T value) {
        String version = versions.get(value);
        if (version != null) return version;
        if (versions.size() >= maxValues) {
            Iterator<T> eldest = versions.keySet().iterator();
            eldest.next();
            eldest.remove();
        }
        version = PROCESS + "-" + LAST.incrementAndGet();
        versions.put(value, version);
        return version;
    }
}
