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
 * The files that Spark reads for a scan, after partition pruning and in Spark's own order. A file's number is its place
 * in {@code files}; a file of two partitions, which may share a folder, has a number in each. {@code index} returns the
 * same files again without another listing.
 */
public final class Listing {
    public final FileIndex index;
    final List<PartitionDirectory> partitions;
    public final List<FileStatusWithMetadata> files = new ArrayList<>();
    private final List<Integer> firstFiles = new ArrayList<>();
    private final List<Expression> partitionFilters;
    /** What is deleted of files, by path: see {@link #text}; null unless the log of the table lists its files. */
    private final Map<Path, String> deletes;
    /** The values of the partitions of a log, as {@link #text} has them. */
    private List<List<String>> valuesOfLog = List.of();
    private String fingerprint;

    private Listing(
            FileIndex index, List<Expression> partitionFilters, List<PartitionDirectory> known, Map<Path, String> deletes) {
        this.index = index;
        this.partitionFilters = partitionFilters;
        this.deletes = deletes;
        this.partitions = known == null ? listed() : known;
        for (PartitionDirectory partition : partitions) {
            firstFiles.add(files.size());
            files.addAll(Scala.list(partition.files()));
        }
    }

    /**
     * Lists the files of a relation under filters over partition columns; null if their index is of an unknown kind. A listing
     * that is {@code kept} is the one that is read, whatever the session writes until then.
     */
    public static Listing of(HadoopFsRelation relation, List<Expression> partitionFilters, boolean kept) {
        FileIndex index = relation.location();
        if (index instanceof CatalogFileIndex catalog) {
            index = kept
                    ? catalog.filterPartitions(Scala.seq(partitionFilters))
                    : PlannedFiles.of(relation.sparkSession(), catalog, partitionFilters);
        } else if (!isListed(index)) {
            return null;
        }
        return new Listing(index, partitionFilters, null, null);
    }

    /** Whether an index of files has listed them. */
    public static boolean isListed(FileIndex index) {
        return index instanceof InMemoryFileIndex || index instanceof PlannedFiles;
    }

    /**
     * Returns the listing of files that the log of a table lists, in partitions with these values as text (null is NULL); a single
     * one without values stands for all. From some of the files rows are deleted. There is no {@code location} where Spark has no
     * index of the files.
     */
    public static Listing ofLog(
            FileIndex location, List<List<String>> values, List<List<FileStatus>> partitions, Map<Path, String> deletes) {
        List<PartitionDirectory> known = new ArrayList<>();
        for (List<FileStatus> files : partitions) {
            List<FileStatusWithMetadata> listed = new ArrayList<>();
            for (FileStatus file : files) listed.add(new FileStatusWithMetadata(file, Scala.map(Map.of())));
            known.add(new PartitionDirectory(InternalRow.empty(), Scala.seq(listed)));
        }
        Listing listing = new Listing(location, List.of(), known, deletes);
        listing.valuesOfLog = values;
        return listing;
    }

    private List<PartitionDirectory> listed() {
        return Scala.list(index.listFiles(Scala.seq(partitionFilters), Scala.seq(List.of())));
    }

    /**
     * Whether Spark would read other files now, as after a write to the table in this session. It lists nothing anew, unless
     * the session may have written a partitioned table.
     */
    public boolean isOutdated() {
        if (deletes != null) return false; // the files of a plan are those of one version of the log
        if (index instanceof PlannedFiles planned && !planned.mayBeOutdated()) return false;
        List<FileStatusWithMetadata> now = new ArrayList<>();
        for (PartitionDirectory partition : listed()) now.addAll(Scala.list(partition.files()));
        if (now.size() != files.size()) return true;
        for (int at = 0; at < now.size(); at++) {
            FileStatusWithMetadata file = files.get(at);
            boolean same = file.getPath().equals(now.get(at).getPath()) && file.getLen() == now.get(at).getLen()
                    && file.getModificationTime() == now.get(at).getModificationTime();
            if (!same) return true;
        }
        return false;
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

    /** Returns the place, {@code from} or a later one, of a partition with these values in the listing; -1 if it has none. */
    int partition(InternalRow values, int from) {
        for (int at = from; at < partitions.size(); at++) {
            if (partitions.get(at).values().equals(values)) return at;
        }
        return -1;
    }

    /** Returns the numbers of the files of the partition at a place, by their paths. */
    Map<Path, Integer> numbers(int partition) {
        int end = partition + 1 < firstFiles.size() ? firstFiles.get(partition + 1) : files.size();
        Map<Path, Integer> found = new HashMap<>();
        for (int number = firstFiles.get(partition); number < end; number++) found.put(files.get(number).getPath(), number);
        return found;
    }

    /** Returns a digest of {@link #text}, under which Python keeps what it makes of it. */
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
     * Returns the listing as text of tab-separated fields. Each partition is a line {@code P} with a field for each value
     * ({@code =text}, or nothing for NULL), followed by a line for each of its files: {@code F}, size in bytes, milliseconds
     * since 1970, path, and for a file that the log of its table lists {@code log}, or {@code deletes} if rows of it are
     * deleted, with what tells these rows from what is deleted of the file at other times (nothing if only the format's
     * reader knows which rows these are). Tabs, line feeds, carriage returns and backslashes are escaped by a backslash.
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

    /** Returns, for each partition column, the expression by which Spark casts its value to a string. */
    public static List<Expression> texts(StructType schema) {
        String zone = SQLConf.get().sessionLocalTimeZone();
        List<Expression> found = new ArrayList<>();
        for (int at = 0; at < schema.length(); at++) {
            Expression value = new BoundReference(at, schema.apply(at).dataType(), true);
            found.add(new Cast(value, StringType$.MODULE$, scala.Option.apply(zone)));
        }
        return found;
    }

    /** Returns the values of a partition as text, by these expressions; null is NULL. */
    public static List<String> values(List<Expression> texts, InternalRow partition) {
        List<String> found = new ArrayList<>();
        for (Expression text : texts) {
            Object value = text.eval(partition);
            found.add(value == null ? null : value.toString());
        }
        return found;
    }

    private static String escaped(String text) {
        return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r");
    }
}
