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

/** The columns that indexes of tables had as keys a moment ago: of scans that test none of them nothing is asked. */
public final class IndexedColumns {
    private static final long NANOSECONDS = 30_000_000_000L;
    private static final int MOST = 10_000;
    private static final Map<String, Known> TABLES = new ConcurrentHashMap<>();

    private IndexedColumns() {}

    /** Names in lower case, and when they were told. */
    private record Known(Set<String> columns, long since) {}

    private static Known known(CatalogTable table) {
        Known known = TABLES.get(table.qualifiedName());
        return known != null && System.nanoTime() - known.since < NANOSECONDS ? known : null;
    }

    static boolean areKnown(CatalogTable table) {
        return known(table) != null;
    }

    /** Whether a table is known to be without an index. */
    public static boolean areNone(CatalogTable table) {
        Known known = known(table);
        return known != null && known.columns.isEmpty();
    }

    /** Remember the key columns of all indexes of a table, {@code catalog.database.table}; there may be none. */
    static void add(CatalogTable table, List<String> columns) {
        if (TABLES.size() >= MOST) TABLES.clear();
        Set<String> names = Set.copyOf(columns.stream().map(one -> one.toLowerCase(Locale.ROOT)).toList());
        TABLES.put(table.qualifiedName(), new Known(names, System.nanoTime()));
    }

    /** Whether an index may serve a scan: it tests a key column, or rows are counted, which any index knows. */
    public static boolean mayServe(Scan scan) {
        Known known = known(scan.table);
        if (known == null || scan.aggregate != null) return true;
        for (Expression conjunct : scan.conjuncts) {
            for (Attribute tested : Scala.list(conjunct.references().toSeq())) {
                if (known.columns.contains(tested.name().toLowerCase(Locale.ROOT))) return true;
            }
        }
        return scan.links.stream().anyMatch(link -> known.columns.contains(link.column().name().toLowerCase(Locale.ROOT)));
    }

    /** Forget all: indexes are made, altered or dropped. */
    public static void clear() {
        TABLES.clear();
    }
}
