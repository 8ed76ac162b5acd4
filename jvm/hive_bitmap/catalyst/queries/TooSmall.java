package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.python.CurrentContext;
import hive_bitmap.catalyst.python.PythonRequest;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.expressions.Attribute;

/** A cache of scans that are faster than a look at their indexes, by Python's estimate, which is not asked for again. */
public final class TooSmall {
    private static final int MAX_TABLES = 1_000;
    private static final int MAX_SCANS_OF_TABLE = 100;
    private static final Map<String, Set<Key>> TABLES = new ConcurrentHashMap<>();

    static {
        CurrentContext.atEnd(TABLES::clear);
    }

    private TooSmall() {}

    /** All that the estimate depends on, by name or as a hash. */
    private record Key(List<String> columns, int aggregate, String settings, String listing) {
        static Key of(Scan scan) {
            return new Key(
                    scan.columns.stream().map(Attribute::name).toList(),
                    scan.aggregate == null ? 0 : scan.aggregate.canonicalized().hashCode(),
                    PythonRequest.settingsVersion(), scan.listing().fingerprint());
        }
    }

    public static boolean contains(Scan scan) {
        Set<Key> known = TABLES.get(scan.table.qualifiedName());
        return known != null && scan.isListedBySpark() && known.contains(Key.of(scan));
    }

    /** Adds a scan, but only if Spark has listed its files: another one would have to be listed to look it up here. */
    static void add(Scan scan) {
        if (!scan.isListedBySpark()) return;
        if (TABLES.size() >= MAX_TABLES) TABLES.clear();
        Set<Key> known = TABLES.computeIfAbsent(scan.table.qualifiedName(), name -> ConcurrentHashMap.newKeySet());
        if (known.size() >= MAX_SCANS_OF_TABLE) known.clear();
        known.add(Key.of(scan));
    }
}
