package hive_bitmap.catalyst.lake;

import hive_bitmap.catalyst.reading.FileChoice;
import hive_bitmap.catalyst.reading.Listing;
import hive_bitmap.catalyst.reading.Narrowing;
import hive_bitmap.catalyst.reading.SplitSize;
import hive_bitmap.catalyst.spark.Scala;
import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy$;
import org.apache.spark.sql.execution.datasources.v2.PushDownUtils$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/**
 * The files of a scan of an Iceberg table, as Iceberg plans them: those of the snapshot that the relation is of, without what its own
 * statistics and partitions exclude. What is read instead are some of these very tasks of Iceberg's, whole or in part, with their
 * deletes, by Iceberg's own readers.
 */
public final class IcebergFiles {
    private static final String SCAN = "org.apache.iceberg.spark.source.SparkBatchQueryScan";

    private final DataSourceV2Relation relation;
    private final List<Expression> filters;
    private final Scan all;
    private final Object schema;
    private List<Object> tasks;
    private Listing listing;

    /** Has Iceberg begin a scan of a relation under conditions over its columns. Throws RuntimeException if it is not as known. */
    public IcebergFiles(DataSourceV2Relation relation, List<Expression> filters) {
        this.relation = relation;
        this.filters = filters;
        this.all = begun(null);
        this.schema = Reflected.hidden(all, "schema");
    }

    /** Begins the scan as Spark does: with the filters, and of these columns (null: all). */
    private Scan begun(StructType columns) {
        ScanBuilder builder = ((SupportsRead) relation.table()).newScanBuilder(relation.options());
        List<Predicate> predicates = new ArrayList<>();
        for (Expression filter : filters) {
            Option<Predicate> translated = DataSourceV2Strategy$.MODULE$.translateFilterV2(filter);
            if (translated.isDefined()) predicates.add(translated.get());
        }
        ((SupportsPushDownV2Filters) builder).pushPredicates(predicates.toArray(new Predicate[0]));
        if (columns != null) ((SupportsPushDownRequiredColumns) builder).pruneColumns(columns);
        Scan scan = builder.build();
        if (!scan.getClass().getName().equals(SCAN)) throw new Reflected.Unknown("Iceberg reads it by " + scan.getClass(), null);
        return scan;
    }

    /** Returns what tells the version of the table that is read from its others. */
    public String version() {
        Object table = relation.table();
        return Reflected.<Object>get(table, "snapshotId") + " " + Reflected.<Object>get(table, "branch");
    }

    /** Returns the description of the table with the facts that the version which is read has of it. */
    public CatalogTable described(CatalogTable table) {
        return IcebergTables.withFacts(table, relation, schema);
    }

    /** Returns the columns whose values Iceberg takes from the partition of a file, of any way the table was partitioned by. */
    public List<String> identityColumns() {
        return IdentityPartitions.columns(relation, schema);
    }

    /**
     * Returns the files, with the deletes of those that have some, and with the {@code values} of {@link #identityColumns} in their
     * partitions, if all files have them and these are not too many; else as one partition without. Null if a file is there twice.
     */
    public synchronized Listing listing(boolean values) {
        if (listing != null) return listing;
        Map<List<String>, List<Object>> partitions = values ? IdentityPartitions.of(tasks(), identityColumns(), schema) : null;
        if (partitions != null) tasks = partitions.values().stream().flatMap(List::stream).toList(); // a file's number is its task's
        List<FileStatus> files = new ArrayList<>();
        Map<Path, String> deletes = new HashMap<>();
        Set<Path> paths = new HashSet<>();
        for (Object task : tasks()) {
            Object file = Reflected.get(task, "file");
            Path path = IcebergTables.path(Reflected.get(file, "location"));
            if (!paths.add(path)) return null;
            files.add(new FileStatus(Reflected.<Long>get(file, "fileSizeInBytes"), false, 0, 1, 0, path));
            if (!Reflected.<Collection<?>>get(task, "deletes").isEmpty()) deletes.put(path, new PositionDeletes(task, null).id());
        }
        if (partitions == null) {
            listing = Listing.ofLog(null, List.of(List.of()), List.of(files), deletes);
            return listing;
        }
        List<List<FileStatus>> apart = new ArrayList<>();
        int first = 0;
        for (List<Object> some : partitions.values()) apart.add(files.subList(first, first += some.size()));
        listing = Listing.ofLog(null, List.copyOf(partitions.keySet()), apart, deletes);
        return listing;
    }

    /** Returns the rows of the files of these numbers that are deleted, as {@link DeletedRows#text} says. */
    public StringBuilder deleted(List<Integer> numbers) {
        Object io = Reflected.get(Reflected.get(relation.table(), "table"), "io");
        return DeletedRows.text(numbers.stream().<DeletedRows.OfFile>map(one -> new PositionDeletes(tasks().get(one), io)).toList());
    }

    private List<Object> tasks() {
        if (tasks == null) tasks = new ArrayList<>(Reflected.<List<Object>>hidden(all, "tasks"));
        return tasks;
    }

    /**
     * Returns the relation of which some columns, and the {@code choices} by the numbers of files in the listing only, are read. A file
     * without a choice is read whole, and so is one with deletes by values.
     */
    public LogicalPlan narrowed(List<Attribute> columns, Map<Integer, FileChoice> choices, Narrowing narrowing) {
        List<Object> chosen = new ArrayList<>();
        Map<Path, FileChoice> known = new HashMap<>();
        for (int number = 0; number < tasks().size(); number++) {
            Object task = tasks().get(number);
            FileChoice choice = choices.get(number);
            if (choice == null || PositionDeletes.hasOthers(task)) {
                chosen.add(task);
                continue;
            }
            known.put(listing(false).files.get(number).getPath(), choice);
            addRanges(task, choice, chosen);
        }
        Scan scan = begun(columns, chosen);
        Reflected.set(scan, "taskGroups", narrowed(known));
        return of(new IcebergScan(scan, known, narrowing));
    }

    /**
     * Returns the groups of tasks, a Spark task each, of the scan of all files, without what is not chosen of them: Iceberg would
     * group what is left of the files otherwise, and so deliver rows in another order. Neighbours of which little is left are joined.
     */
    private List<Object> narrowed(Map<Path, FileChoice> choices) {
        List<Object> groups = new ArrayList<>();
        List<List<Object>> left = new ArrayList<>();
        boolean keyed = false;
        for (Object group : Reflected.<List<Object>>hidden(all, "taskGroups")) {
            List<Object> chosen = new ArrayList<>();
            for (Object task : Reflected.<Collection<Object>>get(group, "tasks")) addChosen(task, choices, chosen);
            if (chosen.isEmpty()) continue;
            groups.add(group);
            left.add(chosen);
            keyed |= Reflected.<Integer>get(Reflected.get(group, "groupingKey"), "size") > 0;
        }
        long total = left.stream().mapToLong(IcebergFiles::bytes).sum();
        long most = keyed ? 0 : SplitSize.most(SparkSession.active().sparkContext(), total);
        List<Object> joined = new ArrayList<>();
        List<Object> together = new ArrayList<>();
        for (int at = 0; at < left.size(); at++) {
            together.addAll(left.get(at));
            if (at + 1 < left.size() && bytes(together) + bytes(left.get(at + 1)) <= most) continue;
            Object group = groups.get(at);
            joined.add(Reflected.make(group.getClass(), Reflected.get(group, "groupingKey"), together));
            together = new ArrayList<>();
        }
        return joined;
    }

    private static void addChosen(Object task, Map<Path, FileChoice> choices, List<Object> chosen) {
        FileChoice choice = choices.get(IcebergTables.path(Reflected.get(Reflected.get(task, "file"), "location")));
        if (choice == null) {
            chosen.add(task);
            return;
        }
        long start = Reflected.<Long>get(task, "start"), end = start + Reflected.<Long>get(task, "length");
        for (int at = 0; at < choice.ranges().length; at += 2) {
            long from = Math.max(choice.ranges()[at], start), to = Math.min(choice.ranges()[at + 1], end);
            if (from < to) chosen.add(from == start && to == end ? task : RangeTask.of(task, from, to));
        }
    }

    private static long bytes(List<Object> tasks) {
        long open = SQLConf.get().filesOpenCostInBytes();
        return tasks.stream().mapToLong(task -> open + Reflected.<Long>get(task, "length")).sum();
    }

    private static void addRanges(Object task, FileChoice choice, List<Object> chosen) {
        long[] ranges = choice.ranges();
        long size = Reflected.<Long>get(task, "length");
        for (int at = 0; at < ranges.length; at += 2) {
            boolean whole = ranges[at] == 0 && ranges[at + 1] == size;
            chosen.add(whole ? task : RangeTask.of(task, ranges[at], ranges[at + 1]));
        }
    }

    /** Returns the relation of which some columns, and the files of these numbers only, are read. */
    public LogicalPlan only(List<Attribute> columns, Set<Integer> numbers) {
        Set<Integer> sorted = new TreeSet<>(numbers);
        List<Object> chosen = sorted.stream().map(tasks()::get).collect(Collectors.toList());
        return of(new IcebergScan(begun(columns, chosen), sorted, null));
    }

    /** Begins a scan of these columns that has these tasks. */
    private Scan begun(List<Attribute> columns, List<Object> chosen) {
        Set<String> names = columns.stream().map(Attribute::name).collect(Collectors.toSet());
        List<StructField> fields = new ArrayList<>();
        for (StructField field : relation.schema().fields()) if (names.contains(field.name())) fields.add(field);
        Scan scan = begun(new StructType(fields.toArray(new StructField[0])));
        Reflected.hidden(scan, "resetTasks", List.class, chosen);
        return scan;
    }

    private LogicalPlan of(IcebergScan scan) {
        scala.collection.immutable.Seq<AttributeReference> output = PushDownUtils$.MODULE$.toOutputAttrs(scan.readSchema(), relation);
        try { // by reflection, since versions of Spark have added parameters to the constructor
            Class<?> type = Class.forName("org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation");
            Constructor<?> constructor = type.getConstructors()[0];
            List<Object> arguments = new ArrayList<>(List.of(relation, scan, output));
            for (Class<?> parameter : List.of(constructor.getParameterTypes()).subList(3, constructor.getParameterCount())) {
                arguments.add(parameter == Option.class ? Option.empty() : parameter == boolean.class ? false : Scala.seq(List.of()));
            }
            return (LogicalPlan) constructor.newInstance(arguments.toArray());
        } catch (ReflectiveOperationException e) {
            throw new Reflected.Unknown("this version of Spark has other scans", e);
        }
    }
}
