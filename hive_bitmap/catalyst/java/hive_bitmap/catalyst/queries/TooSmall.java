package hive_bitmap.catalyst.queries;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.expressions.Attribute;

/** Scans that Python found too small to be worth a look: as long as nothing about them changes, it is not asked again. */
public final class TooSmall {
    private static final int MOST_TABLES = 10_000;
    private static final int MOST_OF_ONE = 100;
    private static final Map<String, Set<Known>> TABLES = new ConcurrentHashMap<>();

    private TooSmall() {}

    /** What the answer depends on. */
    private record Known(List<String> columns, int aggregate, int settings, String listing) {
        static Known of(Scan scan) {
            return new Known(
                    scan.columns.stream().map(Attribute::name).toList(),
                    scan.aggregate == null ? 0 : scan.aggregate.canonicalized().hashCode(),
                    Inquiry.settingsNumber(), scan.listing().fingerprint());
        }
    }

    public static boolean contains(Scan scan) {
        Set<Known> known = TABLES.get(scan.table.qualifiedName());
        return known != null && scan.listsAtOnce() && known.contains(Known.of(scan));
    }

    /** Remember it of a scan of which Spark has listed the files. */
    static void add(Scan scan) {
        if (!scan.listsAtOnce()) return;
        if (TABLES.size() >= MOST_TABLES) TABLES.clear();
        Set<Known> known = TABLES.computeIfAbsent(scan.table.qualifiedName(), name -> ConcurrentHashMap.newKeySet());
        if (known.size() >= MOST_OF_ONE) known.clear();
        known.add(Known.of(scan));
    }
}
