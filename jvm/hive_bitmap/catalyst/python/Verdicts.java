package hive_bitmap.catalyst.python;

import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Attribute;

/**
 * A cache of verdicts that a scan is left alone, so that Python need not be asked. It holds which columns of a table are indexed,
 * and which scans Python has left alone. It never changes an answer: it only says which scans Spark reads by itself. Entries expire
 * after half a minute, or when an index is created, altered or dropped; some verdicts hold until files or settings change. All
 * verdicts on scans expire when Python's prices change.
 */
public final class Verdicts {
    private static final long TTL_NANOSECONDS = 30_000_000_000L;
    private static final int MAX_TABLES = 10_000;
    private static final int MAX_SCANS_OF_TABLE = 100;
    private static final int MAX_SCANS = 100_000; // of all tables
    private static final Map<String, OfTable> TABLES = new ConcurrentHashMap<>();
    private static final AtomicInteger ADDED = new AtomicInteger(); // scans since all were removed
    private static final AtomicLong VERSION = new AtomicLong(); // the number of changes of indexes
    private static volatile long prices; // the version of Python's prices

    static {
        CurrentContext.atEnd(Verdicts::clear);
    }

    private Verdicts() {}

    /**
     * The entry of a table.
     *
     * @param columns the indexed columns in lower case; null if unknown
     * @param since the {@code System.nanoTime()} at which the columns were added
     * @param scans the verdicts on scans, by everything that a verdict depends on besides the files
     */
    private record OfTable(Set<String> columns, long since, Map<List<?>, Verdict> scans) {
        OfTable() {
            this(null, 0, new ConcurrentHashMap<>());
        }

        Set<String> indexed() {
            return columns != null && System.nanoTime() - since < TTL_NANOSECONDS ? columns : null;
        }
    }

    /**
     * Why a scan is left alone.
     *
     * @param reason the code of the reason
     * @param files the version of the files that the verdict holds for
     * @param until the {@code System.nanoTime()} at which it expires; null if it holds as long as the files
     * @param version the version of the indexes that it is based on
     * @param prices the version of the prices that it is based on
     */
    private record Verdict(String reason, String files, Long until, long version, long prices) {
        boolean holds() {
            if (prices != Verdicts.prices) return false;
            return until == null || until - System.nanoTime() > 0 && version == VERSION.get();
        }
    }

    private static Set<String> indexed(TableIdentifier table) {
        OfTable cached = TABLES.get(table.unquotedString());
        return cached == null ? null : cached.indexed();
    }

    private static OfTable of(TableIdentifier table) {
        if (TABLES.size() >= MAX_TABLES || ADDED.get() >= MAX_SCANS) removeAll();
        return TABLES.computeIfAbsent(table.unquotedString(), name -> new OfTable());
    }

    /** Returns whether the indexed columns of a table are known. */
    public static boolean areColumnsKnown(CatalogTable table) {
        return indexed(table.identifier()) != null;
    }

    /** Returns whether a table is known to have no index. Its name includes catalog and database. */
    public static boolean hasNoIndex(TableIdentifier table) {
        Set<String> columns = indexed(table);
        return columns != null && columns.isEmpty();
    }

    /** Returns whether any of these columns of a table may be indexed; true if its indexed columns are unknown. */
    public static boolean mayIndex(CatalogTable table, Stream<Attribute> columns) {
        Set<String> indexed = indexed(table.identifier());
        return indexed == null || columns.anyMatch(column -> indexed.contains(column.name().toLowerCase(Locale.ROOT)));
    }

    /** Returns a version that changes when indexes change; to be taken before Python is asked. */
    public static long version() {
        return VERSION.get();
    }

    /**
     * Adds the key columns of all indexes of a table; none if the table has no index.
     *
     * @param version the {@link #version} when Python was asked; if it is outdated, nothing is added
     */
    public static void addColumns(TableIdentifier table, List<String> columns, long version) {
        if (version != VERSION.get()) return;
        Set<String> names = Set.copyOf(columns.stream().map(name -> name.toLowerCase(Locale.ROOT)).toList());
        OfTable cached = of(table);
        TABLES.put(table.unquotedString(), new OfTable(names, System.nanoTime(), cached.scans));
    }

    /**
     * Returns the code of the reason for leaving a scan alone; null if Python has to be asked.
     *
     * @param scan everything that the verdict depends on besides the files
     * @param files returns the version of the scan's files; called only if there is a verdict
     */
    public static String reason(TableIdentifier table, List<?> scan, Supplier<String> files) {
        OfTable cached = TABLES.get(table.unquotedString());
        Verdict verdict = cached == null ? null : cached.scans.get(scan);
        return verdict != null && verdict.holds() && verdict.files.equals(files.get()) ? verdict.reason : null;
    }

    /**
     * Adds the verdict that a scan is left alone.
     *
     * @param lasting whether the verdict holds until the files change; otherwise it also expires with the indexes, and after a
     *     while
     * @param version the {@link #version} when Python was asked
     * @param prices the version of the prices that the decision is based on
     */
    public static void add(TableIdentifier table, List<?> scan, String files, String reason, boolean lasting, long version, long prices) {
        Map<List<?>, Verdict> scans = of(table).scans;
        if (scans.size() >= MAX_SCANS_OF_TABLE) scans.clear();
        ADDED.incrementAndGet();
        scans.put(scan, new Verdict(reason, files, lasting ? null : System.nanoTime() + TTL_NANOSECONDS, version, prices));
    }

    /** Returns the version of Python's prices. */
    public static long prices() {
        return prices;
    }

    /** Sets the version of Python's prices. Verdicts that are based on other prices expire. */
    public static void pricesAre(long version) {
        prices = version;
    }

    /**
     * Forgets the indexed columns of all tables, and the verdicts that depend on indexes; to be called when an index was created,
     * altered or dropped, or when another Python process answers.
     */
    public static void indexesChanged() {
        VERSION.incrementAndGet();
        TABLES.replaceAll((table, cached) -> new OfTable(null, 0, cached.scans));
    }

    private static void clear() {
        VERSION.incrementAndGet();
        removeAll();
    }

    private static void removeAll() {
        ADDED.set(0);
        TABLES.clear();
    }
}
