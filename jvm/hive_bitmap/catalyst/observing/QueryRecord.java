package hive_bitmap.catalyst.observing;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * A record of how often queries of each shape were planned, what Spark would have read for them, and how often each index was
 * used. It is bounded in bytes; the shapes and indexes that were seen least recently are evicted.
 *
 * <p>As text it is lines of JSON, of two kinds, which hive_bitmap/spark/advising/observed.py reads:
 *
 * <pre>
 * {"database", "table", "tests": [[column, kind, values]..], "key_sets": [[column..]..],
 *  "sums": {"keys": [column..], "measures": [{"column", "functions"}..]},
 *  "expressions": [[column, sql, kind, values]..],
 *  "queries", "bytes", "unsized", "served", "columns": {name: queries}, "samples": {column: [value..]}}
 * {"database", "table", "index", "uses"}
 * </pre>
 *
 * {@code queries} counts the queries that no index served. {@code bytes} is what Spark read for them, except for {@code unsized} of
 * them. A figure in a file may be negative: it corrects an earlier line.
 */
final class QueryRecord {
    private static final int MAX_COLUMNS = 64;
    private static final int ENTRY_BYTES = 300;
    private static final int MAX_SAMPLES = 8;

    private final int maxBytes;
    private final Map<QueryShape, Entry> shapes = new LinkedHashMap<>(16, 0.75f, true);
    private final Map<IndexName, Uses> indexes = new LinkedHashMap<>(16, 0.75f, true);
    private int bytes;
    private long forgotten;

    QueryRecord(int maxBytes) {
        this.maxBytes = maxBytes;
    }

    private record IndexName(String database, String table, String index) {
        int bytes() {
            return 2 * (database.length() + table.length() + index.length()) + ENTRY_BYTES;
        }
    }

    /** The figures of a shape, since the beginning of the application or since the last write to a file. */
    private static final class Tally {
        long queries;
        long bytes;
        long unsized;
        long served;
        final Map<String, Long> columns = new TreeMap<>();

        void add(Tally other) {
            queries += other.queries;
            bytes += other.bytes;
            unsized += other.unsized;
            served += other.served;
            other.columns.forEach((column, number) -> columns.merge(column, number, Long::sum));
        }

        boolean isEmpty() {
            return queries == 0 && bytes == 0 && unsized == 0 && served == 0 && columns.isEmpty();
        }
    }

    /** The figures of a shape, with their weight in bytes. */
    private static final class Entry {
        final int shapeBytes;
        final Tally all = new Tally();
        Tally unwritten = new Tally();
        final Map<String, Set<String>> samples = new TreeMap<>();
        int bytes;

        Entry(int shapeBytes) {
            this.shapeBytes = shapeBytes;
        }

        List<Tally> tallies() {
            return List.of(all, unwritten);
        }

        int weight() {
            int weight = shapeBytes + ENTRY_BYTES;
            for (String column : all.columns.keySet()) weight += 2 * (2 * column.length() + ENTRY_BYTES);
            for (Set<String> values : samples.values()) {
                for (String value : values) weight += 2 * value.length() + ENTRY_BYTES;
            }
            return weight;
        }
    }

    /** How often an index was used: in all, and since the last write to a file. */
    private static final class Uses {
        long all;
        long unwritten;
    }

    /**
     * Adds a query.
     *
     * @param read the bytes of the files that Spark would read, -1 if unknown
     * @param columns the columns that the query reads
     * @param samples some values that the query compares columns with
     */
    synchronized void add(QueryShape shape, long read, Collection<String> columns, Map<String, Set<String>> samples) {
        Entry entry = shapes.computeIfAbsent(shape, missing -> new Entry(shape.bytes()));
        for (Tally tally : entry.tallies()) {
            tally.queries++;
            if (read < 0) tally.unsized++;
            else tally.bytes += read;
            for (String column : columns) {
                if (tally.columns.size() < MAX_COLUMNS || tally.columns.containsKey(column)) tally.columns.merge(column, 1L, Long::sum);
            }
        }
        samples.forEach((column, values) -> {
            Set<String> keptValues = entry.samples.computeIfAbsent(column, missing -> new LinkedHashSet<>());
            for (String value : values) {
                if (keptValues.size() < MAX_SAMPLES) keptValues.add(value);
            }
        });
        int weight = entry.weight();
        bytes += weight - entry.bytes;
        entry.bytes = weight;
        forget();
    }

    /** Records that indexes serve a query, which was added before with the same bytes. */
    synchronized void served(QueryShape shape, long read) {
        Entry entry = shapes.get(shape);
        if (entry == null) return;
        for (Tally tally : entry.tallies()) {
            tally.served++;
            tally.queries--;
            if (read < 0) tally.unsized--;
            else tally.bytes -= read;
        }
    }

    /** Records the bytes of a query, which was added before without them. */
    synchronized void sized(QueryShape shape, long read) {
        Entry entry = shapes.get(shape);
        if (entry == null) return;
        for (Tally tally : entry.tallies()) {
            tally.unsized--;
            tally.bytes += read;
        }
    }

    /** Records that a query used an index of a table. */
    synchronized void addUse(String database, String table, String index) {
        IndexName name = new IndexName(database, table, index);
        Uses uses = indexes.get(name);
        if (uses == null) {
            uses = new Uses();
            indexes.put(name, uses);
            bytes += name.bytes();
        }
        uses.all++;
        uses.unwritten++;
        forget();
    }

    /** Evicts the entries seen least recently until the record is within its bound. */
    private void forget() {
        Iterator<Entry> shape = shapes.values().iterator();
        while (bytes > maxBytes && shapes.size() > 1) {
            bytes -= shape.next().bytes;
            shape.remove();
            forgotten++;
        }
        Iterator<IndexName> index = indexes.keySet().iterator();
        while (bytes > maxBytes && indexes.size() > 1) {
            bytes -= index.next().bytes();
            index.remove();
            forgotten++;
        }
    }

    /** Returns how many shapes and indexes were evicted. */
    synchronized long forgotten() {
        return forgotten;
    }

    /** Returns a line for each shape and each used index. */
    synchronized List<String> lines() {
        List<String> lines = new ArrayList<>();
        shapes.forEach((shape, entry) -> lines.add(line(shape, entry, entry.all)));
        indexes.forEach((name, uses) -> lines.add(line(name, uses.all)));
        return lines;
    }

    /** Lines to be written, and the figures in them, which were taken from the record. */
    record Taken(List<String> lines, Map<QueryShape, Tally> shapes, Map<IndexName, Long> indexes) {}

    /** Takes the figures that no earlier call has taken, as lines. */
    synchronized Taken take() {
        Taken taken = new Taken(new ArrayList<>(), new LinkedHashMap<>(), new LinkedHashMap<>());
        shapes.forEach((shape, entry) -> {
            if (entry.unwritten.isEmpty()) return;
            taken.lines.add(line(shape, entry, entry.unwritten));
            taken.shapes.put(shape, entry.unwritten);
            entry.unwritten = new Tally();
        });
        indexes.forEach((name, uses) -> {
            if (uses.unwritten == 0) return;
            taken.lines.add(line(name, uses.unwritten));
            taken.indexes.put(name, uses.unwritten);
            uses.unwritten = 0;
        });
        return taken;
    }

    /** Puts back figures that could not be written, unless their entry was evicted. */
    synchronized void putBack(Taken taken) {
        shapes.forEach((shape, entry) -> {
            Tally tally = taken.shapes.get(shape);
            if (tally != null) entry.unwritten.add(tally);
        });
        indexes.forEach((name, uses) -> uses.unwritten += taken.indexes.getOrDefault(name, 0L));
    }

    private static String line(QueryShape shape, Entry entry, Tally tally) {
        ObjectNode line = JsonNodeFactory.instance.objectNode();
        shape.writeTo(line);
        line.put("queries", tally.queries).put("bytes", tally.bytes).put("unsized", tally.unsized);
        line.put("served", tally.served);
        ObjectNode columns = line.putObject("columns");
        tally.columns.forEach(columns::put);
        if (!entry.samples.isEmpty()) {
            ObjectNode samples = line.putObject("samples");
            entry.samples.forEach((column, values) -> {
                ArrayNode texts = samples.putArray(column);
                values.forEach(texts::add);
            });
        }
        return line.toString();
    }

    private static String line(IndexName name, long uses) {
        return JsonNodeFactory.instance.objectNode().put("database", name.database).put("table", name.table)
                .put("index", name.index).put("uses", uses).toString();
    }
}
