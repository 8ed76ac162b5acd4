package hive_bitmap.catalyst.reading;

import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.execution.datasources.CatalogFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The files that Spark reads for a scan, after partition pruning and in Spark's own order. A file's number is its place
 * in {@code files}. {@code index} returns the same files again without another listing.
 */
public final class Listing {
    public final FileIndex index;
    final List<PartitionDirectory> partitions;
    public final List<FileStatusWithMetadata> files = new ArrayList<>();

    private Listing(FileIndex index, List<PartitionDirectory> partitions) {
        this.index = index;
        this.partitions = partitions;
        for (PartitionDirectory partition : partitions) files.addAll(Scala.list(partition.files()));
    }

    /** Lists the files of {@code location} under filters over partition columns; null if it is of an unknown kind. */
    public static Listing of(FileIndex location, List<Expression> partitionFilters) {
        FileIndex index = location;
        if (location instanceof CatalogFileIndex catalog) index = catalog.filterPartitions(Scala.seq(partitionFilters));
        else if (!(location instanceof InMemoryFileIndex)) return null;
        return new Listing(index, Scala.list(index.listFiles(Scala.seq(partitionFilters), Scala.seq(List.of()))));
    }

    public long bytes() {
        long sum = 0;
        for (FileStatusWithMetadata file : files) sum += file.getLen();
        return sum;
    }

    /** Returns a hash of all files, and the number of partitions: a cache key for what is made of a listing. */
    public String fingerprint() {
        long first = 17;
        long second = 31;
        for (FileStatusWithMetadata file : files) {
            int one = Objects.hash(file.getPath(), file.getLen(), file.getModificationTime());
            first = first * 1_000_003 + one;
            second = second * 92_821 + file.getPath().toString().hashCode() + file.getLen() * 7 + file.getModificationTime();
        }
        return files.size() + "-" + partitions.size() + "-" + Long.toHexString(first) + Long.toHexString(second);
    }

    /**
     * Returns the listing as text of tab-separated fields. Each partition is a line {@code P} with a field for each value
     * ({@code =text}, or nothing for NULL), followed by a line for each of its files: {@code F}, size in bytes, milliseconds
     * since 1970, path. Tabs, line feeds, carriage returns and backslashes are escaped by a backslash.
     */
    public String text() {
        StringBuilder text = new StringBuilder();
        StructType schema = index.partitionSchema();
        for (PartitionDirectory partition : partitions) {
            text.append('P');
            for (int at = 0; at < schema.length(); at++) {
                String value = text(partition.values(), schema, at);
                text.append('\t').append(value == null ? "" : "=" + escaped(value));
            }
            text.append('\n');
            for (FileStatusWithMetadata file : Scala.list(partition.files())) {
                FileStatus status = file.fileStatus();
                text.append("F\t").append(status.getLen()).append('\t').append(status.getModificationTime()).append('\t');
                text.append(escaped(path(status.getPath()))).append('\n');
            }
        }
        return text.toString();
    }

    /** Returns a path as index tables store it: Hadoop's own text, for a local file without an authority. */
    static String path(Path path) {
        return path.toString();
    }

    /** Returns a partition value as Spark casts it to a string; null for NULL. */
    private static String text(InternalRow values, StructType schema, int at) {
        if (values.isNullAt(at)) return null;
        Literal literal = new Literal(values.get(at, schema.apply(at).dataType()), schema.apply(at).dataType());
        String zone = SQLConf.get().sessionLocalTimeZone();
        Object text = new Cast(literal, StringType$.MODULE$, scala.Option.apply(zone)).eval(null);
        return ((UTF8String) text).toString();
    }

    private static String escaped(String text) {
        return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r");
    }
}
