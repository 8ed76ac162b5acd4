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
 * The files that Iceberg plans for a scan: those of the relation's snapshot, without those that Iceberg's own statistics and
 * partitions exclude. A narrowed scan reads some of the same tasks, whole or in part, with their deletes, by Iceberg's own readers.
 */
public final class IcebergFiles {
    private static final String SCAN = "org.apache.iceberg.spark.source.SparkBatchQueryScan";

    private final DataSourceV2Relation relation;
    private final List<Expression> filters;
    private final Scan fullScan;
    private final Object schema;
    private List<Object> tasks;
    private Listing listing;

    /**
     * Begins a scan of a relation by Iceberg, under conditions over its columns. Throws RuntimeException if the version of Iceberg
     * is not supported.
     */
    public IcebergFiles(DataSourceV2Relation relation, List<Expression> filters) {
        this.relation = relation;
        this.filters = filters;
        this.fullScan = begun(null);
        this.schema = Reflected.hidden(fullScan, "schema");
    }

    /** Begins the scan as Spark does, with the filters and these columns (null: all). */
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

    /** Returns a text that identifies the version of the table that is read. */
    public String version() {
        Object table = relation.table();
        return Reflected.<Object>get(table, "snapshotId") + " " + Reflected.<Object>get(table, "branch");
    }

    /** Returns the description of the table with the facts of the version that is read. */
    public CatalogTable described(CatalogTable table) {
        return IcebergTables.withFacts(table, relation, schema);
    }

    /** Returns the columns of identity partitions, by any partition spec of the table. Their values are in a file's partition. */
    public List<String> identityColumns() {
        return IdentityPartitions.columns(relation, schema);
    }

    /**
     * Returns the listing of the files, with the versions of their deletes; null if a file occurs twice. With {@code values}, the
     * files are listed by partition, with the partitions' values, unless a file lacks values of {@link #identityColumns} or there
     * are too many partitions; otherwise they are one partition without values.
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
        List<List<FileStatus>> filesOfPartitions = new ArrayList<>();
        int first = 0;
        for (List<Object> tasksOfPartition : partitions.values()) filesOfPartitions.add(files.subList(first, first += tasksOfPartition.size()));
        listing = Listing.ofLog(null, List.copyOf(partitions.keySet()), filesOfPartitions, deletes);
        return listing;
    }

    /** Returns the deleted rows of the files with these numbers, as {@link DeletedRows#text} does. */
    public StringBuilder deleted(List<Integer> numbers) {
        Object io = Reflected.get(Reflected.get(relation.table(), "table"), "io");
        return DeletedRows.text(numbers.stream().<DeletedRows.OfFile>map(number -> new PositionDeletes(tasks().get(number), io)).toList());
    }

    private List<Object> tasks() {
        if (tasks == null) tasks = new ArrayList<>(Reflected.<List<Object>>hidden(fullScan, "tasks"));
        return tasks;
    }

    /**
     * Returns the relation restricted to some columns and to the choices of files, by their numbers in the listing. A file is read
     * whole if it has no choice, or deletes by values.
     */
    public LogicalPlan narrowed(List<Attribute> columns, Map<Integer, FileChoice> choices, Narrowing narrowing) {
        List<Object> chosen = new ArrayList<>();
        Map<Path, FileChoice> choiceByPath = new HashMap<>();
        for (int number = 0; number < tasks().size(); number++) {
            Object task = tasks().get(number);
            FileChoice choice = choices.get(number);
            if (choice == null || PositionDeletes.hasOthers(task)) {
                chosen.add(task);
                continue;
            }
            choiceByPath.put(listing(false).files.get(number).getPath(), choice);
            addRanges(task, choice, chosen);
        }
        Scan scan = begun(columns, chosen);
        Reflected.set(scan, "taskGroups", narrowed(choiceByPath));
        return of(new IcebergScan(scan, choiceByPath, narrowing));
    }

    /**
     * Returns the groups of tasks of the full scan, reduced to the chosen parts. Each group becomes a Spark task. Iceberg must not
     * group the chosen parts itself, because rows would then come in another order. Neighbouring groups that have become small are
     * joined.
     */
    private List<Object> narrowed(Map<Path, FileChoice> choices) {
        List<Object> groups = new ArrayList<>();
        List<List<Object>> chosenOfGroups = new ArrayList<>();
        boolean isGrouped = false;
        for (Object group : Reflected.<List<Object>>hidden(fullScan, "taskGroups")) {
            List<Object> chosen = new ArrayList<>();
            for (Object task : Reflected.<Collection<Object>>get(group, "tasks")) addChosen(task, choices, chosen);
            if (chosen.isEmpty()) continue;
            groups.add(group);
            chosenOfGroups.add(chosen);
            isGrouped |= Reflected.<Integer>get(Reflected.get(group, "groupingKey"), "size") > 0;
        }
        long total = chosenOfGroups.stream().mapToLong(IcebergFiles::bytes).sum();
        long maxBytes = isGrouped ? 0 : SplitSize.most(SparkSession.active().sparkContext(), total);
        List<Object> joined = new ArrayList<>();
        List<Object> together = new ArrayList<>();
        for (int at = 0; at < chosenOfGroups.size(); at++) {
            together.addAll(chosenOfGroups.get(at));
            if (at + 1 < chosenOfGroups.size() && bytes(together) + bytes(chosenOfGroups.get(at + 1)) <= maxBytes) continue;
            Object group = groups.get(at);
            joined.add(Reflected.make(group.getClass(), Reflected.get(group, "groupingKey"), together));
            together = new ArrayList<>();
        }
        return joined;
    }

    /** Adds the chosen parts of a task, which may be a part of a file. */
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

    /** Adds the chosen ranges of a task for a whole file. */
    private static void addRanges(Object task, FileChoice choice, List<Object> chosen) {
        long[] ranges = choice.ranges();
        long size = Reflected.<Long>get(task, "length");
        for (int at = 0; at < ranges.length; at += 2) {
            boolean whole = ranges[at] == 0 && ranges[at + 1] == size;
            chosen.add(whole ? task : RangeTask.of(task, ranges[at], ranges[at + 1]));
        }
    }

    /** Returns the relation restricted to some columns and to the files with these numbers. */
    public LogicalPlan only(List<Attribute> columns, Set<Integer> numbers) {
        Set<Integer> sorted = new TreeSet<>(numbers);
        List<Object> chosen = sorted.stream().map(tasks()::get).collect(Collectors.toList());
        return of(new IcebergScan(begun(columns, chosen), sorted, null));
    }

    /** Begins a scan of these columns with these tasks. */
    private Scan begun(List<Attribute> columns, List<Object> chosen) {
        Set<String> names = columns.stream().map(Attribute::name).collect(Collectors.toSet());
        List<StructField> fields = new ArrayList<>();
        for (StructField field : relation.schema().fields()) if (names.contains(field.name())) fields.add(field);
        Scan scan = begun(new StructType(fields.toArray(new StructField[0])));
        Reflected.hidden(scan, "resetTasks", List.class, chosen);
        return scan;
    }

    /** Returns the plan that reads a scan in place of the relation. */
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
