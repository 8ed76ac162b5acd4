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
 * The files that Spark reads for a scan, in Spark's own order: those of the partitions that its filters leave. Files are
 * known by their numbers. {@code index} lists them again at no cost.
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

    /** What {@code location} lists under filters over partition columns; null where it is of no known kind. */
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

    /** A number that changes with any partition or file, so that what was made of a listing can be kept. */
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
     * A line a partition ({@code P}, then a field a value: {@code =text}, or nothing for NULL), each followed by a line a
     * file of it ({@code F}, size, milliseconds since 1970, path). Tabs, line feeds and backslashes are escaped.
     */
    public String text() {
        StringBuilder text = new StringBuilder();
        StructType schema = index.partitionSchema();
        for (PartitionDirectory partition : partitions) {
            text.append('P');
            for (int at = 0; at < schema.length(); at++) {
                String value = shown(partition.values(), schema, at);
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

    /** A path as index tables have it: Hadoop's own text, of a local file without an authority. */
    static String path(Path path) {
        return path.toString();
    }

    private static String shown(InternalRow values, StructType schema, int at) {
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
