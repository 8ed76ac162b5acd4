package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.spark.Scala;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;

/** A TTL cache of the indexed columns of tables: Python is not asked about a scan whose conditions test none of them. */
public final class IndexedColumns {
    private static final long TTL_NANOSECONDS = 30_000_000_000L;
    private static final int MAX_TABLES = 10_000;
    private static final Map<String, Known> TABLES = new ConcurrentHashMap<>();

    private IndexedColumns() {}

    /** Column names in lower case, and the {@code System.nanoTime()} at which they were added. */
    private record Known(Set<String> columns, long since) {}

    private static Known known(CatalogTable table) {
        Known known = TABLES.get(table.qualifiedName());
        return known != null && System.nanoTime() - known.since < TTL_NANOSECONDS ? known : null;
    }

    static boolean areKnown(CatalogTable table) {
        return known(table) != null;
    }

    /** Whether a table is known to be without an index. */
    public static boolean areNone(CatalogTable table) {
        Known known = known(table);
        return known != null && known.columns.isEmpty();
    }

    /** Adds the key columns of all indexes of a table, an empty list if it has no index. */
    static void add(CatalogTable table, List<String> columns) {
        if (TABLES.size() >= MAX_TABLES) TABLES.clear();
        Set<String> names = Set.copyOf(columns.stream().map(one -> one.toLowerCase(Locale.ROOT)).toList());
        TABLES.put(table.qualifiedName(), new Known(names, System.nanoTime()));
    }

    /** Whether an index may help a scan: a condition tests an indexed column, or the scan is aggregated. */
    public static boolean mayServe(Scan scan) {
        Known known = known(scan.table);
        if (known == null || scan.aggregate != null) return true;
        for (Expression conjunct : scan.conjuncts) {
            for (Attribute tested : Scala.list(conjunct.references().toSeq())) {
                if (known.columns.contains(tested.name().toLowerCase(Locale.ROOT))) return true;
            }
        }
        return scan.runtimeFilters.stream()
                .anyMatch(filter -> known.columns.contains(filter.column().name().toLowerCase(Locale.ROOT)));
    }

    /** Clears the cache, since an index was created, altered or dropped, or another Python process answers. */
    public static void clear() {
        TABLES.clear();
    }
}
