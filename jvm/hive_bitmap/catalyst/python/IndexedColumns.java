package hive_bitmap.catalyst.python;

import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Attribute;

/** A TTL cache of the indexed columns of tables: Python is not asked about a scan whose conditions test none of them. */
public final class IndexedColumns {
    private static final long TTL_NANOSECONDS = 30_000_000_000L;
    private static final int MAX_TABLES = 10_000;
    private static final Map<String, Known> TABLES = new ConcurrentHashMap<>();
    private static final AtomicLong CLEARED = new AtomicLong();

    static {
        CurrentContext.atEnd(IndexedColumns::clear);
    }

    private IndexedColumns() {}

    /** Column names in lower case, and the {@code System.nanoTime()} at which they were added. */
    private record Known(Set<String> columns, long since) {}

    private static Known known(TableIdentifier table) {
        Known known = TABLES.get(table.unquotedString());
        return known != null && System.nanoTime() - known.since < TTL_NANOSECONDS ? known : null;
    }

    public static boolean areKnown(CatalogTable table) {
        return known(table.identifier()) != null;
    }

    /** Whether a table is known to be without an index. */
    public static boolean areNone(CatalogTable table) {
        return areNone(table.identifier());
    }

    /** The same for the name of a table, with its catalog and database. */
    public static boolean areNone(TableIdentifier table) {
        Known known = known(table);
        return known != null && known.columns.isEmpty();
    }

    /** A version that changes when the cache is cleared. Whoever is about to ask Python for columns takes it first. */
    public static long version() {
        return CLEARED.get();
    }

    /**
     * Adds the key columns of all indexes of a table, an empty list if it has no index.
     *
     * @param version the {@link #version} when Python was asked: what was true before an index was created is not kept
     */
    public static void add(TableIdentifier table, List<String> columns, long version) {
        if (version != CLEARED.get()) return;
        if (TABLES.size() >= MAX_TABLES) TABLES.clear();
        Set<String> names = Set.copyOf(columns.stream().map(one -> one.toLowerCase(Locale.ROOT)).toList());
        TABLES.put(table.unquotedString(), new Known(names, System.nanoTime()));
    }

    /** Whether one of these columns of a table may be indexed, which is so if the cache does not have the table. */
    public static boolean mayInclude(CatalogTable table, Stream<Attribute> columns) {
        Known known = known(table.identifier());
        return known == null || columns.anyMatch(one -> known.columns.contains(one.name().toLowerCase(Locale.ROOT)));
    }

    /** Clears the cache, since an index was created, altered or dropped, or another Python process answers. */
    public static void clear() {
        CLEARED.incrementAndGet();
        TABLES.clear();
    }
}
