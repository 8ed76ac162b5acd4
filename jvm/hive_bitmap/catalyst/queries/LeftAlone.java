package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.python.CurrentContext;
import hive_bitmap.catalyst.python.IndexedColumns;
import hive_bitmap.catalyst.python.PythonRequest;
import hive_bitmap.catalyst.spark.Expressions;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.expressions.Attribute;

/**
 * A cache of scans that Python left alone and would leave alone again. Python is not asked about them. An entry for a table that is
 * too small holds until files or settings change. Other entries also end after half a minute: those for partitions that are too
 * small, for conditions that select too much, and for limits that take the first rows.
 */
public final class LeftAlone {
    private static final int MAX_TABLES = 1_000;
    private static final int MAX_SCANS_OF_TABLE = 100;
    private static final long TTL_NANOSECONDS = 30_000_000_000L;
    private static final int ANY_CONDITION = 0;
    private static final Map<String, Map<Key, Entry>> TABLES = new ConcurrentHashMap<>();

    static {
        CurrentContext.atEnd(TABLES::clear);
    }

    private LeftAlone() {}

    /**
     * What the decision depends on, by name or as a hash. If two scans have the same hash, both are left alone, which is never
     * wrong.
     */
    private record Key(List<String> columns, int aggregate, int condition, Integer limit, List<String> filtered, String settings) {
        static Key underAnyCondition(Scan scan) {
            return new Key(
                    scan.columns.stream().map(Attribute::name).toList(),
                    scan.aggregate == null ? 0 : scan.aggregate.canonicalized().hashCode(), ANY_CONDITION, null,
                    List.of(), PythonRequest.settingsVersion());
        }

        Key underConditionOf(Scan scan) {
            List<String> filtered = scan.runtimeFilters.stream().map(filter -> filter.column().name()).toList();
            return new Key(columns, aggregate, textOf(scan).hashCode(), scan.limit, filtered, settings);
        }
    }

    private static String textOf(Scan scan) {
        return scan.conjuncts.stream().map(Expressions::sql).collect(Collectors.joining(" AND "));
    }

    /**
     * Why a scan was left alone, and until when that holds.
     *
     * @param reason the code of the reason
     * @param files the {@link Scan#versionOfFiles} that the decision was made for
     * @param until the {@code System.nanoTime()} at which it expires
     * @param indexes the version of the indexes that the decision was made with
     */
    private record Entry(String reason, String files, long until, long indexes) {
        boolean holds(boolean forEver) {
            return forEver || until - System.nanoTime() > 0 && indexes == IndexedColumns.version();
        }
    }

    /**
     * Returns the code of the reason for leaving a scan alone. Null if Python has to be asked. The files of the scan are listed
     * only if there is an entry for it.
     */
    public static String reason(Scan scan) {
        Map<Key, Entry> cachedScans = TABLES.get(scan.table.qualifiedName());
        if (cachedScans == null) return null;
        Key any = Key.underAnyCondition(scan);
        String reason = scan.isListedBySpark() ? reason(scan, cachedScans.get(any), true) : null;
        return reason != null ? reason : reason(scan, cachedScans.get(any.underConditionOf(scan)), false);
    }

    private static String reason(Scan scan, Entry entry, boolean anyCondition) {
        if (entry == null || !entry.holds(anyCondition)) return null;
        return entry.files.equals(scan.versionOfFiles()) ? entry.reason : null;
    }

    /**
     * Adds a scan that was left alone, under any condition or under its own. {@code indexes} is the version of the indexes when
     * Python was asked. If Spark has not listed the files, the scan is always added under its own condition: only the files of its
     * partitions are known then.
     */
    static void add(Scan scan, String reason, boolean anyCondition, long indexes) {
        if (!scan.isListedBySpark() && !scan.isListed() && scan.iceberg() == null) return;
        if (TABLES.size() >= MAX_TABLES) TABLES.clear();
        Map<Key, Entry> cachedScans = TABLES.computeIfAbsent(scan.table.qualifiedName(), name -> new ConcurrentHashMap<>());
        if (cachedScans.size() >= MAX_SCANS_OF_TABLE) cachedScans.clear();
        String listing = scan.versionOfFiles();
        Key any = Key.underAnyCondition(scan);
        Entry entry = new Entry(reason, listing, System.nanoTime() + TTL_NANOSECONDS, indexes);
        cachedScans.put(anyCondition && scan.isListedBySpark() ? any : any.underConditionOf(scan), entry);
    }
}
