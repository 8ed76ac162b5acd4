package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.lake.DeltaFiles;
import hive_bitmap.catalyst.lake.PlanDelta;
import hive_bitmap.catalyst.reading.FileChoice;
import hive_bitmap.catalyst.reading.FileRelations;
import hive_bitmap.catalyst.reading.Narrowing;
import hive_bitmap.catalyst.reading.SelectedFiles;
import hive_bitmap.catalyst.reading.SelectedOrc;
import hive_bitmap.catalyst.reading.SelectedParquet;
import hive_bitmap.catalyst.spark.NestedColumns;
import hive_bitmap.catalyst.spark.RowOrder;
import hive_bitmap.catalyst.spark.Scala;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.catalog.BucketSpec;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import scala.Option;

/** Makes the relations that replace a scan: the same table, restricted to some files or blocks, for Spark's own readers. */
public final class NarrowedRelations {
    private NarrowedRelations() {}

    /** Returns whether Spark reads a scan by its own Parquet or ORC reader, which can be restricted to byte ranges. */
    static boolean reads(Scan scan) {
        if (scan.iceberg() != null) return true;
        if (scan.files() == null) return false;
        if (scan.isOfDelta()) return true;
        Class<?> format = scan.files().fileFormat().getClass();
        return format == ParquetFileFormat.class || format == OrcFileFormat.class;
    }

    /** Returns whether the query depends on positions of rows that would change if the scan were narrowed. */
    public static boolean losesPositions(Scan scan) {
        boolean keepsPartitions = reads(scan) && scan.iceberg() == null && !scan.isOfDelta();
        return scan.order == RowOrder.POSITIONS || scan.order == RowOrder.PARTITIONS && !keepsPartitions;
    }

    /** Returns the scan's relation, restricted to the {@link #choices} of files and blocks. The expression ids stay the same. */
    static LogicalPlan narrowed(Scan scan, String choices, Narrowing narrowing) {
        if (scan.iceberg() != null) return scan.iceberg().narrowed(scan.columns, choices(choices), narrowing);
        if (scan.isOfDelta()) {
            return PlanDelta.narrowed((LogicalRelation) scan.relation, scan.listing(), choices(choices), narrowing);
        }
        return narrowed(scan, new SelectedFiles(scan.listing(), choices(choices)), scan.files().bucketSpec(), narrowing);
    }

    /**
     * Returns the scan's relation, restricted to splits of its files ({@link #choices}), which are read even if the files have
     * changed.
     */
    static LogicalPlan splits(Scan scan, String choices, Narrowing narrowing) {
        return narrowed(scan, SelectedFiles.splits(scan.listing(), choices(choices)), Option.empty(), narrowing);
    }

    private static LogicalRelation narrowed(Scan scan, SelectedFiles selected, Option<BucketSpec> buckets, Narrowing narrowing) {
        HadoopFsRelation files = scan.files();
        FileFormat format = files.fileFormat() instanceof ParquetFileFormat ? new SelectedParquet(narrowing) : new SelectedOrc(narrowing);
        return withFiles(scan, new HadoopFsRelation(
                selected, files.partitionSchema(), files.dataSchema(), buckets, format, files.options(),
                files.sparkSession()));
    }

    /**
     * Copies the relation of a scan with other files. Spark prefers a table's statistics to the sizes of files, so statistics get
     * the size of {@code narrowed}. A relation that is being cached keeps its size, because Spark chooses joins by it.
     */
    private static LogicalRelation withFiles(Scan scan, HadoopFsRelation narrowed) {
        boolean keepsSize = scan.table.stats().isEmpty() || scan.order == RowOrder.PARTITIONS;
        CatalogTable table = keepsSize ? scan.table : FileRelations.sized(scan.table, narrowed.location().sizeInBytes());
        return FileRelations.copied((LogicalRelation) scan.relation, narrowed, Option.apply(table));
    }

    /** Returns the figures of a narrowed file relation; null for any other relation. */
    public static Narrowing narrowing(HadoopFsRelation files) {
        if (files.fileFormat() instanceof SelectedParquet parquet) return parquet.narrowing();
        return files.fileFormat() instanceof SelectedOrc orc ? orc.narrowing() : null;
    }

    /** Returns a scan's relation over the files that are already listed. */
    static LogicalRelation listed(Scan scan) {
        return withFiles(scan, FileRelations.over(scan.files(), scan.listing().index));
    }

    /** Replaces a scan's relation in a plan by one over the files that are already listed. */
    static LogicalPlan overListed(Scan scan, LogicalPlan plan) {
        LogicalRelation listed = listed(scan);
        return (LogicalPlan) plan.transformDown(Scala.replacing(node -> node == scan.relation ? listed : null));
    }

    /** Returns the scan's relation, restricted to whole files, given by their numbers in the scan's listing. */
    static LogicalPlan restrictedTo(Scan scan, Set<Integer> numbers) {
        if (scan.iceberg() != null) return scan.iceberg().only(scan.columns, numbers);
        HadoopFsRelation files = scan.files();
        if (scan.isOfDelta()) return withFiles(scan, FileRelations.over(files, DeltaFiles.only(files.location(), numbers)));
        return withFiles(scan, new HadoopFsRelation(
                new SelectedFiles(scan.listing(), numbers), files.partitionSchema(), files.dataSchema(), Option.empty(),
                files.fileFormat(), files.options(), files.sparkSession()));
    }

    /**
     * Parses the choices that hive_bitmap/spark/catalyst/ranges.py writes. The keys are the files' numbers in the scan's listing. A
     * line has the number, size, modification time, CRC-32 of the tail, tag, and begin and end of each range, separated by tabs.
     */
    static Map<Integer, FileChoice> choices(String text) {
        Map<Integer, FileChoice> choices = new HashMap<>();
        for (String line : text.split("\n")) {
            if (line.isEmpty()) continue;
            String[] fields = line.split("\t", -1);
            long[] ranges = new long[fields.length - 5];
            for (int at = 0; at < ranges.length; at++) ranges[at] = Long.parseLong(fields[at + 5]);
            choices.put(
                    Integer.parseInt(fields[0]),
                    new FileChoice(
                            Long.parseLong(fields[1]), Long.parseLong(fields[2]), fields[4], Long.parseLong(fields[3]), ranges));
        }
        return choices;
    }

    /**
     * Returns a plan whose relations have only the fields of structs that the query needs; the plan itself if no scan reads nested
     * columns. Spark itself prunes the fields right after this package's rule; until then, scans have the types of their tables. A
     * Delta table that Delta has yet to prepare must not be pruned; then nested columns are left to Spark.
     */
    public static LogicalPlan pruned(LogicalPlan plan, List<Scan> scans) {
        boolean isNeeded = scans.stream()
                .anyMatch(scan -> scan.files() != null && !scan.isOfDelta() && !NestedColumns.types(scan.columns).isEmpty());
        if (!isNeeded) return plan;
        if (!plan.exists(Scala.predicate(node -> Scan.mayBeIndexable(node) && !Scan.isIndexable(node)))) return NestedColumns.pruned(plan);
        for (Scan scan : scans) scan.hasTypesOfPlan = false;
        return plan;
    }
}
