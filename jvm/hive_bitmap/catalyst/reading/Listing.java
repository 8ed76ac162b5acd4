package hive_bitmap.catalyst.reading;

import hive_bitmap.catalyst.spark.Scala;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.CatalogFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.sql.types.StructType;

/**
 * The files that Spark reads for a scan, after partition pruning and in Spark's order. A file's number is its position in {@code
 * files}. Two partitions may share a folder; a file of both has a number in each. {@code index} is a file index that returns the
 * same files without listing them again.
 */
public final class Listing {
    public final FileIndex index;
    final List<PartitionDirectory> partitions;
    public final List<FileStatusWithMetadata> files = new ArrayList<>();
    private final List<Integer> firstFiles = new ArrayList<>(); // the number of the first file of each partition
    private final List<Expression> partitionFilters;
    /** The versions of the files' deletes, by path ({@link #text}); null unless the files come from the log of the table. */
    private final Map<Path, String> deletes;
    /** The partition values from a log, as {@link #text} writes them. */
    private List<List<String>> valuesOfLog = List.of();
    private String fingerprint;

    private Listing(
            FileIndex index, List<Expression> partitionFilters, List<PartitionDirectory> givenPartitions, Map<Path, String> deletes) {
        this.index = index;
        this.partitionFilters = partitionFilters;
        this.deletes = deletes;
        this.partitions = givenPartitions == null ? listed() : givenPartitions;
        for (PartitionDirectory partition : partitions) {
            firstFiles.add(files.size());
            files.addAll(Scala.list(partition.files()));
        }
    }

    /**
     * Lists the files of a relation under filters over partition columns; null for an unknown kind of index. If {@code isFixed},
     * exactly the listed files will be read, even if the session writes to the table in between.
     */
    public static Listing of(HadoopFsRelation relation, List<Expression> partitionFilters, boolean isFixed) {
        FileIndex index = relation.location();
        if (index instanceof CatalogFileIndex catalog) {
            index = isFixed
                    ? catalog.filterPartitions(Scala.seq(partitionFilters))
                    : PlannedFiles.of(relation.sparkSession(), catalog, partitionFilters);
        } else if (!isListed(index)) {
            return null;
        }
        return new Listing(index, partitionFilters, null, null);
    }

    /** Returns whether a file index has already listed its files. */
    public static boolean isListed(FileIndex index) {
        return index instanceof InMemoryFileIndex || index instanceof PlannedFiles;
    }

    /**
     * Returns a listing of the files in the log of a table.
     *
     * @param location Spark's index of the files; null if there is none
     * @param values the values of each partition as text (null is NULL); one partition without values stands for all
     * @param partitions the files of each partition
     * @param deletes the versions of the deletes of files with deleted rows, by path
     */
    public static Listing ofLog(
            FileIndex location, List<List<String>> values, List<List<FileStatus>> partitions, Map<Path, String> deletes) {
        List<PartitionDirectory> directories = new ArrayList<>();
        for (List<FileStatus> files : partitions) {
            List<FileStatusWithMetadata> listed = new ArrayList<>();
            for (FileStatus file : files) listed.add(new FileStatusWithMetadata(file, Scala.map(Map.of())));
            directories.add(new PartitionDirectory(InternalRow.empty(), Scala.seq(listed)));
        }
        Listing listing = new Listing(location, List.of(), directories, deletes);
        listing.valuesOfLog = values;
        return listing;
    }

    /** Lists the files through the index. */
    private List<PartitionDirectory> listed() {
        return Scala.list(index.listFiles(Scala.seq(partitionFilters), Scala.seq(List.of())));
    }

    /**
     * Returns whether Spark would now read other files, or files with other partition values, because this session has written to
     * the table. Files are listed again only if the session may have written to a partitioned table.
     */
    public boolean isOutdated() {
        if (deletes != null) return false; // a plan reads the files of one version of the log
        if (index instanceof PlannedFiles planned && !planned.mayBeOutdated()) return false;
        List<PartitionDirectory> current = listed();
        if (current.size() != partitions.size()) return true;
        for (int at = 0; at < current.size(); at++) {
            if (!isSame(partitions.get(at), current.get(at))) return true;
        }
        return false;
    }

    /** Returns whether two listed partitions have the same values and the same files. */
    private static boolean isSame(PartitionDirectory before, PartitionDirectory now) {
        List<FileStatusWithMetadata> files = Scala.list(before.files()), currentFiles = Scala.list(now.files());
        if (!before.values().equals(now.values()) || files.size() != currentFiles.size()) return false;
        for (int at = 0; at < files.size(); at++) {
            FileStatusWithMetadata file = files.get(at), currentFile = currentFiles.get(at);
            boolean isSame = file.getPath().equals(currentFile.getPath()) && file.getLen() == currentFile.getLen()
                    && file.getModificationTime() == currentFile.getModificationTime();
            if (!isSame) return false;
        }
        return true;
    }

    public long bytes() {
        long sum = 0;
        for (FileStatusWithMetadata file : files) sum += file.getLen();
        return sum;
    }

    /** Returns the size of the largest splits of a scan of all files. */
    public long splitBytes(SparkContext context) {
        return SplitSize.most(context, bytes() + files.size() * SQLConf.get().filesOpenCostInBytes());
    }

    /** Returns the position of the first partition with these values in the listing, from {@code from} on; -1 if there is none. */
    int partition(InternalRow values, int from) {
        for (int at = from; at < partitions.size(); at++) {
            if (partitions.get(at).values().equals(values)) return at;
        }
        return -1;
    }

    /** Returns the numbers of the files of a partition, given by its position, by path. */
    Map<Path, Integer> numbers(int partition) {
        int end = partition + 1 < firstFiles.size() ? firstFiles.get(partition + 1) : files.size();
        Map<Path, Integer> numbers = new HashMap<>();
        for (int number = firstFiles.get(partition); number < end; number++) numbers.put(files.get(number).getPath(), number);
        return numbers;
    }

    /** Returns a digest of {@link #text}, under which Python caches the parsed listing. */
    public synchronized String fingerprint() {
        if (fingerprint == null) {
            try {
                byte[] digest = MessageDigest.getInstance("SHA-256").digest(text().getBytes(StandardCharsets.UTF_8));
                fingerprint = HexFormat.of().formatHex(digest);
            } catch (NoSuchAlgorithmException e) {
                throw new IllegalStateException("every JVM has SHA-256", e);
            }
        }
        return fingerprint;
    }

    /**
     * Returns the listing as text with tab-separated fields. Each partition is a line {@code P} with a field for each value ({@code
     * =text}, or nothing for NULL). A line for each of its files follows: {@code F}, size in bytes, milliseconds since 1970, path.
     * Files from a log have one more field: {@code log}, or if they have deleted rows {@code deletes}, followed by the version of
     * the deletes (empty if only the format's reader knows which rows are deleted). Tabs, line feeds, carriage returns and
     * backslashes are escaped by a backslash.
     */
    public String text() {
        StringBuilder text = new StringBuilder();
        List<Expression> columns = deletes == null ? texts(index.partitionSchema()) : List.of();
        for (int at = 0; at < partitions.size(); at++) {
            PartitionDirectory partition = partitions.get(at);
            text.append('P');
            for (String value : deletes == null ? values(columns, partition.values()) : valuesOfLog.get(at)) {
                text.append('\t').append(value == null ? "" : "=" + escaped(value));
            }
            text.append('\n');
            for (FileStatusWithMetadata file : Scala.list(partition.files())) {
                FileStatus status = file.fileStatus();
                text.append("F\t").append(status.getLen()).append('\t').append(status.getModificationTime()).append('\t');
                text.append(escaped(status.getPath().toString()));
                String deleted = deletes == null ? null : deletes.get(status.getPath());
                if (deletes != null) text.append(deleted == null ? "\tlog" : "\tdeletes\t" + escaped(deleted));
                text.append('\n');
            }
        }
        return text.toString();
    }

    /** Returns, for each partition column, Spark's cast of its value to a string. */
    public static List<Expression> texts(StructType schema) {
        String zone = SQLConf.get().sessionLocalTimeZone();
        List<Expression> casts = new ArrayList<>();
        for (int at = 0; at < schema.length(); at++) {
            Expression value = new BoundReference(at, schema.apply(at).dataType(), true);
            casts.add(new Cast(value, StringType$.MODULE$, scala.Option.apply(zone)));
        }
        return casts;
    }

    /** Returns the values of a partition as text, by the casts {@code texts}; null is NULL. */
    public static List<String> values(List<Expression> texts, InternalRow partition) {
        List<String> values = new ArrayList<>();
        for (Expression text : texts) {
            Object value = text.eval(partition);
            values.add(value == null ? null : value.toString());
        }
        return values;
    }

    private static String escaped(String text) {
        return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r");
    }
}
