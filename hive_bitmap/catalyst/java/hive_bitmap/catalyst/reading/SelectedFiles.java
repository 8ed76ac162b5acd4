package hive_bitmap.catalyst.reading;

import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * The files of a table, each with the byte ranges to read. A file of which nothing has to be read stays in the list, with
 * a length of one byte: its task checks that it is still the file that was indexed, and reads it whole if it is not.
 */
public final class SelectedFiles implements FileIndex {
    private final FileIndex all;
    private final Map<String, FileChoice> choices;
    private final Set<String> only;
    private final long bytes;

    /** All files; those without a choice are read whole. */
    public SelectedFiles(Listing listing, Map<String, FileChoice> choices) {
        this(listing, choices, null);
    }

    /** Only the files of these paths, which are read whole. */
    public SelectedFiles(Listing listing, Set<String> only) {
        this(listing, Map.of(), only);
    }

    private SelectedFiles(Listing listing, Map<String, FileChoice> choices, Set<String> only) {
        this.all = listing.index;
        this.choices = choices;
        this.only = only;
        long sum = 0;
        for (FileStatusWithMetadata file : listing.files) {
            FileChoice choice = choices.get(Listing.path(file.getPath()));
            if (isRead(file)) sum += choice == null ? file.getLen() : choice.bytes();
        }
        this.bytes = sum;
    }

    private boolean isRead(FileStatusWithMetadata file) {
        return only == null || only.contains(Listing.path(file.getPath()));
    }

    @Override
    public Seq<PartitionDirectory> listFiles(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
        List<PartitionDirectory> found = new ArrayList<>();
        for (PartitionDirectory partition : Scala.list(all.listFiles(partitionFilters, dataFilters))) {
            List<FileStatusWithMetadata> files = new ArrayList<>();
            for (FileStatusWithMetadata file : Scala.list(partition.files())) {
                if (isRead(file)) files.add(withChoice(file));
            }
            found.add(new PartitionDirectory(partition.values(), Scala.seq(files)));
        }
        return Scala.seq(found);
    }

    private FileStatusWithMetadata withChoice(FileStatusWithMetadata file) {
        FileChoice choice = choices.get(Listing.path(file.getPath()));
        if (choice == null) return file;
        FileStatus status = file.fileStatus();
        if (choice.readsNothing()) {
            status = new FileStatus(1, false, 1, status.getBlockSize(), status.getModificationTime(), status.getPath());
        }
        return new FileStatusWithMetadata(status, file.metadata().updated(FileChoice.KEY, choice));
    }

    @Override
    public Seq<Path> rootPaths() {
        return all.rootPaths();
    }

    @Override
    public String[] inputFiles() {
        return all.inputFiles();
    }

    @Override
    public void refresh() {
        all.refresh();
    }

    @Override
    public long sizeInBytes() {
        return bytes;
    }

    @Override
    public StructType partitionSchema() {
        return all.partitionSchema();
    }

    @Override
    public Option<Object> metadataOpsTimeNs() {
        return all.metadataOpsTimeNs();
    }

    /** Two scans that read the same ranges of the same files are equal, so that Spark can reuse their exchanges. */
    @Override
    public boolean equals(Object other) {
        return other instanceof SelectedFiles files && all.equals(files.all) && choices.equals(files.choices)
                && Objects.equals(only, files.only);
    }

    @Override
    public int hashCode() {
        return choices.hashCode();
    }

    @Override
    public String toString() {
        return "SelectedFiles(" + choices.size() + " known)";
    }

    /** Returns choices by path, given by the number of the file in the listing. */
    public static Map<String, FileChoice> byPath(Listing listing, Map<Integer, FileChoice> byNumber) {
        Map<String, FileChoice> found = new HashMap<>();
        byNumber.forEach((number, choice) -> found.put(Listing.path(listing.files.get(number).getPath()), choice));
        return found;
    }
}
