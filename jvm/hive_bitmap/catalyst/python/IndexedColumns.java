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

/** A TTL cache of the indexed columns of tables. Python is not asked about a scan with conditions on none of them. */
public final class IndexedColumns {
    private static final long TTL_NANOSECONDS = 30_000_000_000L;
    private static final int MAX_TABLES = 10_000;
    private static final Map<String, Entry> TABLES = new ConcurrentHashMap<>();
    private static final AtomicLong CLEARED = new AtomicLong(); // how often the cache was cleared

    static {
        CurrentContext.atEnd(IndexedColumns::clear);
    }

    private IndexedColumns() {}

    /** An entry: column names in lower case, and the {@code System.nanoTime()} at which they were added. */
    private record Entry(Set<String> columns, long since) {}

    private static Entry entry(TableIdentifier table) {
        Entry entry = TABLES.get(table.unquotedString());
        return entry != null && System.nanoTime() - entry.since < TTL_NANOSECONDS ? entry : null;
    }

    /** Returns whether the cache has the columns of a table. */
    public static boolean areKnown(CatalogTable table) {
        return entry(table.identifier()) != null;
    }

    /** Returns whether a table is known to have no index. */
    public static boolean areNone(CatalogTable table) {
        return areNone(table.identifier());
    }

    /** Returns whether a table is known to have no index. The name includes catalog and database. */
    public static boolean areNone(TableIdentifier table) {
        Entry entry = entry(table);
        return entry != null && entry.columns.isEmpty();
    }

    /** Returns a version that changes when the cache is cleared. Take it before you ask Python for columns. */
    public static long version() {
        return CLEARED.get();
    }

    /**
     * Adds the key columns of all indexes of a table. The list is empty if the table has no index.
     *
     * @param version the {@link #version} when Python was asked; if it is outdated, nothing is added
     */
    public static void add(TableIdentifier table, List<String> columns, long version) {
        if (version != CLEARED.get()) return;
        if (TABLES.size() >= MAX_TABLES) TABLES.clear();
        Set<String> names = Set.copyOf(columns.stream().map(name -> name.toLowerCase(Locale.ROOT)).toList());
        TABLES.put(table.unquotedString(), new Entry(names, System.nanoTime()));
    }

    /** Returns whether any of these columns of a table may be indexed. If the table is not in the cache, it may. */
    public static boolean mayInclude(CatalogTable table, Stream<Attribute> columns) {
        Entry entry = entry(table.identifier());
        return entry == null || columns.anyMatch(column -> entry.columns.contains(column.name().toLowerCase(Locale.ROOT)));
    }

    /** Clears the cache. Call it when an index was created, altered or dropped, or when another Python process answers. */
    public static void clear() {
        CLEARED.incrementAndGet();
        TABLES.clear();
    }
}
