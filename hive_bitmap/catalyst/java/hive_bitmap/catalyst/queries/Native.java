package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.reading.FileChoice;
import hive_bitmap.catalyst.reading.Narrowing;
import hive_bitmap.catalyst.reading.SelectedFiles;
import hive_bitmap.catalyst.reading.SelectedOrc;
import hive_bitmap.catalyst.reading.SelectedParquet;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.catalog.CatalogStatistics;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import scala.Option;

/** Narrowed scans by Spark's own readers. */
public final class Native {
    private Native() {}

    /** Whether Spark reads the files of a scan by a reader that can be told ranges. */
    static boolean reads(Scan scan) {
        if (scan.files() == null) return false;
        Class<?> format = scan.files().fileFormat().getClass();
        return format == ParquetFileFormat.class || format == OrcFileFormat.class;
    }

    /** The relation, of which only the chosen files and blocks are read; its columns keep their ids. */
    static LogicalRelation narrowed(Scan scan, String choices, Narrowing narrowing) {
        HadoopFsRelation files = scan.files();
        FileFormat format = files.fileFormat() instanceof ParquetFileFormat ? new SelectedParquet(narrowing) : new SelectedOrc(narrowing);
        SelectedFiles selected = new SelectedFiles(scan.listing(), SelectedFiles.byPath(scan.listing(), choices(choices)));
        HadoopFsRelation narrowed = new HadoopFsRelation(
                selected, files.partitionSchema(), files.dataSchema(), files.bucketSpec(), format, files.options(),
                files.sparkSession());
        return with(scan, narrowed);
    }

    private static LogicalRelation with(Scan scan, HadoopFsRelation narrowed) {
        LogicalRelation relation = (LogicalRelation) scan.relation;
        Object[] arguments = new Object[relation.productArity()];
        for (int at = 0; at < arguments.length; at++) {
            Object argument = relation.productElement(at);
            if (argument instanceof HadoopFsRelation) argument = narrowed;
            if (argument == relation.catalogTable()) argument = Option.apply(sized(scan.table, narrowed.location().sizeInBytes()));
            arguments[at] = argument;
        }
        return (LogicalRelation) relation.makeCopy(arguments);
    }

    /** What is read of a file relation of all; null if it is not narrowed. */
    public static Narrowing narrowing(HadoopFsRelation files) {
        if (files.fileFormat() instanceof SelectedParquet parquet) return parquet.narrowing();
        return files.fileFormat() instanceof SelectedOrc orc ? orc.narrowing() : null;
    }

    /** The relation over the files that were listed, as Spark's PruneFileSourcePartitions leaves it. */
    static LogicalRelation listed(Scan scan) {
        HadoopFsRelation files = scan.files();
        return with(scan, new HadoopFsRelation(
                scan.listing().index, files.partitionSchema(), files.dataSchema(), files.bucketSpec(), files.fileFormat(),
                files.options(), files.sparkSession()));
    }

    /** The relation, of which only these files are read. */
    static LogicalRelation only(Scan scan, Set<String> paths) {
        HadoopFsRelation files = scan.files();
        return with(scan, new HadoopFsRelation(
                new SelectedFiles(scan.listing(), paths), files.partitionSchema(), files.dataSchema(), Option.empty(),
                files.fileFormat(), files.options(), files.sparkSession()));
    }

    /**
     * The choices by the number of the file. A line a file: number, size, modification time, CRC-32 of the tail, tag, and
     * begin and end of each range, between tabs.
     */
    static Map<Integer, FileChoice> choices(String text) {
        Map<Integer, FileChoice> found = new HashMap<>();
        for (String line : text.split("\n")) {
            if (line.isEmpty()) continue;
            String[] fields = line.split("\t", -1);
            long[] ranges = new long[fields.length - 5];
            for (int at = 0; at < ranges.length; at++) ranges[at] = Long.parseLong(fields[at + 5]);
            found.put(
                    Integer.parseInt(fields[0]),
                    new FileChoice(
                            Long.parseLong(fields[1]), Long.parseLong(fields[2]), fields[4], Long.parseLong(fields[3]), ranges));
        }
        return found;
    }

    /** The table with statistics of so many bytes, if it has any: Spark would else take those of the whole table. */
    private static CatalogTable sized(CatalogTable table, long bytes) {
        if (table.stats().isEmpty()) return table;
        CatalogStatistics known = table.stats().get();
        CatalogStatistics sized = new CatalogStatistics(
                scala.math.BigInt.apply(Math.max(bytes, 1)), Option.empty(), known.colStats());
        List<Object> arguments = new ArrayList<>();
        for (int at = 0; at < table.productArity(); at++) {
            boolean isStatistics = table.productElementName(at).equals("stats");
            arguments.add(isStatistics ? Option.apply(sized) : table.productElement(at));
        }
        try { // the constructor has more parameters in each version of Spark
            return (CatalogTable) CatalogTable.class.getConstructors()[0].newInstance(arguments.toArray());
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("a table cannot be copied in this version of Spark", e);
        }
    }
}
