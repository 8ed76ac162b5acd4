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
 * A cache of scans that Python has left to Spark and would leave again, so that it is not asked about them: those of tables that
 * are too small, as long as files and settings stay, and those whose condition selects too much, or of which a limit takes the
 * first rows, for half a minute at most.
 */
public final class LeftAlone {
    private static final int MAX_TABLES = 1_000;
    private static final int MAX_SCANS_OF_TABLE = 100;
    private static final long TTL_NANOSECONDS = 30_000_000_000L;
    private static final int ANY_CONDITION = 0;
    private static final Map<String, Map<Key, Known>> TABLES = new ConcurrentHashMap<>();

    static {
        CurrentContext.atEnd(TABLES::clear);
    }

    private LeftAlone() {}

    /** All that the decision depends on, by name or as a hash; two scans of one hash are left alone, which is never wrong. */
    private record Key(List<String> columns, int aggregate, int condition, Integer limit, List<String> filtered, String settings) {
        static Key underAnyCondition(Scan scan) {
            return new Key(
                    scan.columns.stream().map(Attribute::name).toList(),
                    scan.aggregate == null ? 0 : scan.aggregate.canonicalized().hashCode(), ANY_CONDITION, null,
                    List.of(), PythonRequest.settingsVersion());
        }

        Key underThatOf(Scan scan) {
            List<String> filtered = scan.runtimeFilters.stream().map(filter -> filter.column().name()).toList();
            return new Key(columns, aggregate, textOf(scan).hashCode(), scan.limit, filtered, settings);
        }
    }

    private static String textOf(Scan scan) {
        return scan.conjuncts.stream().map(Expressions::sql).collect(Collectors.joining(" AND "));
    }

    /** Why a scan was left alone, of which {@link Scan#versionOfFiles}, until which {@code System.nanoTime()}, and of which version of the indexes. */
    private record Known(String reason, String files, long until, long indexes) {
        boolean holds(boolean forEver) {
            return forEver || until - System.nanoTime() > 0 && indexes == IndexedColumns.version();
        }
    }

    /**
     * Returns the code of the reason why a scan is left alone, and null if Python has to be asked. Lists the files of the scan if
     * all but these is known.
     */
    public static String reason(Scan scan) {
        Map<Key, Known> known = TABLES.get(scan.table.qualifiedName());
        if (known == null) return null;
        Key any = Key.underAnyCondition(scan);
        String reason = scan.isListedBySpark() ? reason(scan, known.get(any), true) : null;
        return reason != null ? reason : reason(scan, known.get(any.underThatOf(scan)), false);
    }

    private static String reason(Scan scan, Known found, boolean anyCondition) {
        if (found == null || !found.holds(anyCondition)) return null;
        return found.files.equals(scan.versionOfFiles()) ? found.reason : null;
    }

    /**
     * Adds a scan that was left alone, under any condition or under its own; {@code indexes} is the version of the indexes when
     * Python was asked. It is added under its own if Spark has not listed the files: those of its partitions are known then.
     */
    static void add(Scan scan, String reason, boolean anyCondition, long indexes) {
        if (!scan.isListedBySpark() && !scan.isListed() && scan.iceberg() == null) return;
        if (TABLES.size() >= MAX_TABLES) TABLES.clear();
        Map<Key, Known> known = TABLES.computeIfAbsent(scan.table.qualifiedName(), name -> new ConcurrentHashMap<>());
        if (known.size() >= MAX_SCANS_OF_TABLE) known.clear();
        String listing = scan.versionOfFiles();
        Key any = Key.underAnyCondition(scan);
        Known now = new Known(reason, listing, System.nanoTime() + TTL_NANOSECONDS, indexes);
        known.put(anyCondition && scan.isListedBySpark() ? any : any.underThatOf(scan), now);
    }
}
