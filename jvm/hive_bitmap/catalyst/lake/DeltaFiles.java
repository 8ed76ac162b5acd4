package hive_bitmap.catalyst.lake;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import hive_bitmap.catalyst.reading.FileRelations;
import hive_bitmap.catalyst.reading.Listing;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.types.StructType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;

/**
 * The files of a Delta scan that Delta has prepared for a query: the files of one version of the log, without those that Delta's
 * own statistics exclude. Other reads of Delta (of a stream, of changes, or before the files are prepared) are left alone.
 */
public final class DeltaFiles {
    private static final Logger LOG = LoggerFactory.getLogger("hive_bitmap");
    private static final String PACKAGE = "org.apache.spark.sql.delta.";
    private static final String PREPARED = PACKAGE + "stats.PreparedDeltaFileIndex";
    private static final String OF_LOG = PACKAGE + "files.TahoeLogFileIndex";
    private static final String OF_ADDED = PACKAGE + "files.TahoeBatchFileIndex";
    private static final String FORMAT = PACKAGE + "DeltaParquetFileFormat";
    private static final String VECTORS = PACKAGE + "storage.dv.DeletionVectorStore";
    private static final String STORED = PACKAGE + "deletionvectors.StoredBitmap";
    private static final String TRANSACTION = PACKAGE + "OptimisticTransaction";

    private static final int MOST_PARTITIONS = 100; // partitions that are looked up one by one, for their values

    private DeltaFiles() {}

    /** Returns whether Delta has prepared files for a query, reads them by its own format, and not in a statement that writes. */
    public static boolean arePrepared(HadoopFsRelation files) {
        return isPrepared(files.location()) && isOfDelta(files) && !isInTransaction(files.location());
    }

    /**
     * Returns whether files are those of a Delta log that are not prepared yet: Delta will select some of them when the query is
     * optimized.
     */
    public static boolean willBePrepared(HadoopFsRelation files) {
        return files.location().getClass().getName().equals(OF_LOG) && isOfDelta(files);
    }

    /** Returns whether a file index has files that Delta has prepared. */
    public static boolean isPrepared(FileIndex location) {
        return location.getClass().getName().equals(PREPARED);
    }

    private static boolean isOfDelta(HadoopFsRelation files) {
        return files.fileFormat().getClass().getName().equals(FORMAT);
    }

    /** Returns whether this thread is in a statement that writes. Its reads are left to Delta, which records what they read. */
    private static boolean isInTransaction(FileIndex location) {
        try {
            return Reflected.<Option<?>>get(Reflected.module(TRANSACTION, location), "getActive").isDefined();
        } catch (RuntimeException | LinkageError e) {
            LOG.info("this version of Delta is not known: {}", e.getMessage());
            return true;
        }
    }

    /**
     * Returns the listing of the prepared files, with the versions of their deletion vectors. With {@code values}, the files are
     * listed by partition, with the partitions' values, unless there are too many partitions; otherwise they are one partition
     * without values.
     */
    public static Listing listing(FileIndex location, boolean values) {
        List<List<FileStatus>> partitions = new ArrayList<>();
        List<List<String>> valuesOfPartitions = new ArrayList<>();
        Map<Path, String> deletes = new HashMap<>();
        Map<Object, List<Object>> added = byPartition(location);
        boolean isPartitioned = values && !added.isEmpty() && added.size() <= MOST_PARTITIONS;
        List<Expression> texts = Listing.texts((StructType) location.partitionSchema());
        added.forEach((partition, files) -> {
            InternalRow row = isPartitioned ? Reflected.call(location, "getPartitionValuesRow", partition) : null;
            if (isPartitioned) valuesOfPartitions.add(Listing.values(texts, row));
            partitions.add(files.stream().map(file -> status(location, file, deletes)).toList());
        });
        if (isPartitioned) return Listing.ofLog(location, valuesOfPartitions, partitions, deletes);
        List<FileStatus> all = partitions.stream().flatMap(List::stream).toList();
        return Listing.ofLog(location, List.of(List.of()), List.of(all), deletes);
    }

    /** Returns the status of a file in the log, and adds the version of its deletion vector, if any, to {@code deletes} by path. */
    private static FileStatus status(FileIndex location, Object added, Map<Path, String> deletes) {
        Path path = Reflected.call(location, "absolutePath", Reflected.<String>get(added, "path"));
        Object vector = Reflected.get(added, "deletionVector");
        if (vector != null) deletes.put(path, DeletedRows.id(List.of(Reflected.<String>get(vector, "uniqueId"))));
        long size = Reflected.<Long>get(added, "size"), modified = Reflected.<Long>get(added, "modificationTime");
        return new FileStatus(size, false, 0, 1, modified, path);
    }

    /** Returns the deleted rows of the prepared files with these numbers, as {@link DeletedRows#text} does. */
    public static StringBuilder deleted(FileIndex location, List<Integer> numbers) {
        Object log = Reflected.get(location, "deltaLog");
        Object store = Reflected.call(
                Reflected.module(VECTORS, location), "createInstance", Reflected.<Object>get(log, "newDeltaHadoopConf"));
        Object table = Reflected.get(log, "dataPath");
        List<Object> all = added(location);
        List<DeletedRows.OfFile> files = new ArrayList<>();
        for (int number : numbers) files.add(new Vector(Reflected.get(all.get(number), "deletionVector"), table, store));
        return DeletedRows.text(files);
    }

    /** A deletion vector of a file, which Delta's own store reads, with its checksum. */
    private record Vector(Object descriptor, Object table, Object store) implements DeletedRows.OfFile {
        @Override
        public long most() {
            return Reflected.<Long>get(descriptor, "cardinality");
        }

        @Override
        public long[] read() {
            Object stored = Reflected.call(Reflected.module(STORED, descriptor), "create", descriptor, table);
            long[] rows = Reflected.get(Reflected.call(stored, "load", store), "toArray");
            if (rows.length != most()) throw new Reflected.Unknown("a deletion vector has " + rows.length + " rows, not " + most(), null);
            return rows;
        }
    }

    /** Returns the scan that Delta has prepared. */
    private static Object prepared(FileIndex location) {
        return Reflected.get(location, "preparedScan");
    }

    /** Returns the prepared files without duplicates, grouped by partition as in Delta's own reads. */
    private static List<Object> added(FileIndex location) {
        return byPartition(location).values().stream().flatMap(List::stream).toList();
    }

    /** Returns the prepared files without duplicates, by the partition values in the log. */
    private static Map<Object, List<Object>> byPartition(FileIndex location) {
        scala.collection.Seq<Object> files = Reflected.get(prepared(location), "files");
        Map<String, Object> fileByPath = new HashMap<>();
        Map<Object, List<Object>> partitions = new LinkedHashMap<>();
        for (Object added : Scala.list(files)) {
            Object earlier = fileByPath.putIfAbsent(Reflected.get(added, "path"), added);
            if (earlier != null && !earlier.equals(added)) throw new Reflected.Unknown("a file is there twice", null);
            if (earlier != null) continue;
            partitions.computeIfAbsent(Reflected.get(added, "partitionValues"), values -> new ArrayList<>()).add(added);
        }
        return partitions;
    }

    /**
     * Returns whether Delta has selected the files by this condition over partition columns, so that Spark does not test it again.
     */
    public static boolean arePreparedBy(FileIndex location, Expression condition) {
        try {
            scala.collection.Iterable<Expression> filters = Reflected.get(prepared(location), "partitionFilters");
            return Scala.list(filters.toSeq()).stream().anyMatch(condition::semanticEquals);
        } catch (Reflected.Unknown e) {
            return false;
        }
    }

    /** Returns Delta's own index over the prepared files with these numbers. */
    public static FileIndex only(FileIndex location, Set<Integer> numbers) {
        List<Object> all = added(location);
        List<Object> chosen = numbers.stream().sorted().map(all::get).toList();
        Object snapshot = Reflected.get(prepared(location), "scannedSnapshot");
        return (FileIndex) Reflected.make(
                Reflected.type(OF_ADDED, location), Reflected.get(location, "spark"), "hive_bitmap", Scala.seq(chosen),
                Reflected.get(location, "deltaLog"), Reflected.get(location, "path"), snapshot, false);
    }

    /** Returns the description of a table with the facts of the version of the log that is read. */
    public static CatalogTable described(CatalogTable table, FileIndex location) {
        Map<String, String> properties = new HashMap<>(Scala.javaMap(table.properties()));
        properties.put(LakeFacts.PROPERTY, facts(location));
        return FileRelations.copied(table, "properties", Scala.map(properties));
    }

    /**
     * Returns whether the files belong to an older version of the table; false if the installed version of Delta does not show
     * this.
     */
    private static boolean isOfPast(FileIndex location) {
        try {
            Object read = Reflected.get(prepared(location), "scannedSnapshot");
            Object newest = Reflected.get(Reflected.get(location, "deltaLog"), "unsafeVolatileSnapshot");
            return Reflected.<Long>get(read, "version") < Reflected.<Long>get(newest, "version");
        } catch (Reflected.Unknown e) {
            return false;
        }
    }

    private static String facts(FileIndex location) {
        Object metadata = Reflected.get(location, "metadata");
        scala.collection.Map<String, String> configuration = Reflected.get(metadata, "configuration");
        ObjectNode facts = JsonNodeFactory.instance.objectNode();
        facts.put("schema", Reflected.<String>get(metadata, "schemaString"));
        ArrayNode columns = facts.putArray("partitioned_by");
        for (String column : Scala.list(Reflected.<scala.collection.Seq<String>>get(metadata, "partitionColumns"))) columns.add(column);
        facts.put("mapping", Scala.javaMap(configuration).getOrDefault("delta.columnMapping.mode", "none"));
        ArrayNode features = facts.putArray("features");
        Option<scala.collection.Iterable<String>> readerFeatures = Reflected.get(Reflected.get(location, "protocol"), "readerFeatures");
        if (readerFeatures.isDefined()) {
            scala.collection.Iterator<String> iterator = readerFeatures.get().iterator();
            List<String> names = new ArrayList<>();
            while (iterator.hasNext()) names.add(iterator.next());
            names.stream().sorted().forEach(features::add);
        }
        facts.put("past", isOfPast(location));
        return facts.toString();
    }
}
