package hive_bitmap.catalyst.lake;

import hive_bitmap.catalyst.reading.FileChoice;
import hive_bitmap.catalyst.reading.FilesOf;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import scala.collection.immutable.Seq;

/**
 * The files of a Delta scan with the ranges to read, beside Delta's own metadata of a file (its deletion vector). A file of which
 * nothing is read stays in the list, because the order of the rows depends on the sizes of all files. Files are identified by their
 * paths, which are never reused. This index occurs in physical plans only.
 */
final class SelectedDeltaFiles extends FilesOf {
    private final Map<Path, FileChoice> choices;
    private final boolean splits;

    /** {@code splits} says whether parts of a file may be read; otherwise a file is read whole or not at all. */
    SelectedDeltaFiles(FileIndex all, Map<Path, FileChoice> choices, boolean splits) {
        super(all);
        this.choices = choices;
        this.splits = splits;
    }

    @Override
    public Seq<PartitionDirectory> listFiles(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
        List<PartitionDirectory> partitions = new ArrayList<>();
        for (PartitionDirectory partition : Scala.list(all.listFiles(partitionFilters, dataFilters))) {
            List<FileStatusWithMetadata> files = new ArrayList<>();
            for (FileStatusWithMetadata file : Scala.list(partition.files())) {
                FileChoice choice = choices.get(file.getPath());
                boolean isReadWhole = choice == null || !splits && !choice.readsNothing();
                files.add(isReadWhole ? file
                        : new FileStatusWithMetadata(file.fileStatus(), file.metadata().updated(FileChoice.KEY, choice)));
            }
            if (!files.isEmpty()) partitions.add(new PartitionDirectory(partition.values(), Scala.seq(files)));
        }
        return Scala.seq(partitions);
    }

    @Override
    public long sizeInBytes() {
        return all.sizeInBytes();
    }

    /** Returns whether the same ranges of the same files are read, so that Spark can reuse the exchanges of equal scans. */
    @Override
    public boolean equals(Object other) {
        return other instanceof SelectedDeltaFiles files
                && all.equals(files.all) && choices.equals(files.choices) && splits == files.splits;
    }

    @Override
    public int hashCode() {
        return choices.hashCode();
    }

    @Override
    public String toString() {
        return "SelectedDeltaFiles(" + choices.size() + " known)";
    }
}
