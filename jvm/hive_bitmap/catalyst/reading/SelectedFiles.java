package hive_bitmap.catalyst.reading;

import hive_bitmap.catalyst.spark.RowOrder;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import scala.collection.immutable.Seq;

/**
 * The files of a listing, each with the byte ranges to read. A file of which nothing has to be read stays in the list, for two
 * reasons: a task checks that the file is unchanged since it was indexed, and otherwise reads all of it. And the {@link Splits} of
 * a scan, which determine the order of its rows, depend on the sizes of all files. Files are identified by their numbers, because
 * the same file may belong to two partitions.
 */
public final class SelectedFiles extends FilesOf {
    private final Listing listing;
    private final Map<Integer, FileChoice> choices;
    private final FileChoice defaultChoice; // for files without a choice; null: they are read whole
    private final Set<Integer> only; // the numbers of the files to read; null: all files
    private final long bytes;

    /** Selects from all files. Files without a choice are read whole. */
    public SelectedFiles(Listing listing, Map<Integer, FileChoice> choices) {
        this(listing, choices, null, null);
    }

    /** Selects the files with these numbers, which are read whole. */
    public SelectedFiles(Listing listing, Set<Integer> only) {
        this(listing, Map.of(), null, only);
    }

    /** Selects from all files. Files without a choice are not read. */
    public static SelectedFiles splits(Listing listing, Map<Integer, FileChoice> choices) {
        return new SelectedFiles(listing, choices, FileChoice.NOTHING, null);
    }

    private SelectedFiles(Listing listing, Map<Integer, FileChoice> choices, FileChoice defaultChoice, Set<Integer> only) {
        super(listing.index);
        this.listing = listing;
        this.defaultChoice = defaultChoice;
        this.choices = choices;
        this.only = only;
        this.bytes = RowOrder.isToBeCached() ? listing.bytes() : bytesRead();
    }

    private long bytesRead() {
        long sum = 0;
        for (int number = 0; number < listing.files.size(); number++) {
            FileChoice choice = choice(number);
            if (isRead(number)) sum += choice == null ? listing.files.get(number).getLen() : choice.bytes();
        }
        return sum;
    }

    private FileChoice choice(Integer number) {
        return number == null ? defaultChoice : choices.getOrDefault(number, defaultChoice);
    }

    private boolean isRead(Integer number) {
        return only == null || only.contains(number);
    }

    /** Returns the partitions that pass the filters, in the order of the listing (unless the files were listed again since). */
    @Override
    public Seq<PartitionDirectory> listFiles(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
        List<PartitionDirectory> selected = new ArrayList<>();
        int next = 0;
        for (PartitionDirectory partition : Scala.list(all.listFiles(partitionFilters, dataFilters))) {
            int position = listing.partition(partition.values(), next);
            if (position >= 0) next = position + 1;
            Map<Path, Integer> numbers = position < 0 ? Map.of() : listing.numbers(position);
            List<FileStatusWithMetadata> files = new ArrayList<>();
            for (FileStatusWithMetadata file : Scala.list(partition.files())) {
                Integer number = numbers.get(file.getPath());
                if (isRead(number)) files.add(withChoice(file, number));
            }
            selected.add(new PartitionDirectory(partition.values(), Scala.seq(files)));
        }
        return Scala.seq(selected);
    }

    /** Attaches a file's choice to it. {@code number} is null for a file that is not in the listing. */
    private FileStatusWithMetadata withChoice(FileStatusWithMetadata file, Integer number) {
        FileChoice choice = choice(number);
        if (choice == null) return file;
        return new FileStatusWithMetadata(file.fileStatus(), file.metadata().updated(FileChoice.KEY, choice));
    }

    @Override
    public long sizeInBytes() {
        return bytes;
    }

    /** Returns whether the same ranges of the same files are read, so that Spark can reuse the exchanges of equal scans. */
    @Override
    public boolean equals(Object other) {
        return other instanceof SelectedFiles files && all.equals(files.all) && choices.equals(files.choices)
                && Objects.equals(defaultChoice, files.defaultChoice) && Objects.equals(only, files.only) && listing.fingerprint().equals(files.listing.fingerprint());
    }

    @Override
    public int hashCode() {
        return choices.hashCode();
    }

    @Override
    public String toString() {
        return "SelectedFiles(" + choices.size() + " known)";
    }
}
