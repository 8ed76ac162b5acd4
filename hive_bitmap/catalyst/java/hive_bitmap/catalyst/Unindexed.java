package hive_bitmap.catalyst;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;

/** The tables that were without an index a moment ago: of them nothing is asked. */
public final class Unindexed {
    private static final long NANOSECONDS = 30_000_000_000L;
    private static final int MOST = 10_000;
    private static final Map<String, Long> TABLES = new ConcurrentHashMap<>();

    private Unindexed() {}

    static boolean contains(CatalogTable table) {
        Long since = TABLES.get(table.qualifiedName());
        return since != null && System.nanoTime() - since < NANOSECONDS;
    }

    /** Remember that a table, {@code catalog.database.table}, has no index. */
    public static void add(CatalogTable table) {
        if (TABLES.size() >= MOST) TABLES.clear();
        TABLES.put(table.qualifiedName(), System.nanoTime());
    }

    /** Forget all: indexes are made, altered or dropped. */
    public static void clear() {
        TABLES.clear();
    }
}
