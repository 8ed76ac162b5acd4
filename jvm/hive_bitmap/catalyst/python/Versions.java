package hive_bitmap.catalyst.python;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Names values by equality: a value keeps its version while it is among those used last, and no two different values ever
 * have the same one, also not of two JVMs. A hash would not do, since the hashes of texts are easily equal.
 */
public final class Versions<T> {
    private static final String PROCESS = UUID.randomUUID().toString();
    private static final AtomicLong LAST = new AtomicLong();
    private final Map<T, String> known = new LinkedHashMap<>(16, 0.75f, true);
    private final int most;

    public Versions(int most) {
        this.most = most;
    }

    public synchronized String of(T value) {
        String version = known.get(value);
        if (version != null) return version;
        if (known.size() >= most) {
            Iterator<T> eldest = known.keySet().iterator();
            eldest.next();
            eldest.remove();
        }
        version = PROCESS + "-" + LAST.incrementAndGet();
        known.put(value, version);
        return version;
    }
}
