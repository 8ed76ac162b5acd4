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
 * reasons: a task checks that it is still the file that was indexed, and reads it whole if it is not; and the {@link Splits} of a
 * scan, and so the order of its rows, depend on the sizes of all files. Files are told by their numbers, since the same file may
 * belong to two partitions.
 */
public final class SelectedFiles extends FilesOf {
    private final Listing listing;
    private final Map<Integer, FileChoice> choices;
    private final FileChoice others; // for files without a choice; null: they are read whole
    private final Set<Integer> only;
    private final long bytes;

    /** All files; those without a choice are read whole. */
    public SelectedFiles(Listing listing, Map<Integer, FileChoice> choices) {
        this(listing, choices, null, null);
    }

    /** Only the files of these numbers, which are read whole. */
    public SelectedFiles(Listing listing, Set<Integer> only) {
        this(listing, Map.of(), null, only);
    }

    /** All files; nothing is read of those without a choice. */
    public static SelectedFiles splits(Listing listing, Map<Integer, FileChoice> choices) {
        return new SelectedFiles(listing, choices, FileChoice.NOTHING, null);
    }

    private SelectedFiles(Listing listing, Map<Integer, FileChoice> choices, FileChoice others, Set<Integer> only) {
        super(listing.index);
        this.listing = listing;
        this.others = others;
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
        return number == null ? others : choices.getOrDefault(number, others);
    }

    private boolean isRead(Integer number) {
        return only == null || only.contains(number);
    }

    /** Returns the partitions that pass the filters: those of the listing, in its order, unless it was refreshed since. */
    @Override
    public Seq<PartitionDirectory> listFiles(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
        List<PartitionDirectory> found = new ArrayList<>();
        int next = 0;
        for (PartitionDirectory partition : Scala.list(all.listFiles(partitionFilters, dataFilters))) {
            int place = listing.partition(partition.values(), next);
            if (place >= 0) next = place + 1;
            Map<Path, Integer> numbers = place < 0 ? Map.of() : listing.numbers(place);
            List<FileStatusWithMetadata> files = new ArrayList<>();
            for (FileStatusWithMetadata file : Scala.list(partition.files())) {
                Integer number = numbers.get(file.getPath());
                if (isRead(number)) files.add(withChoice(file, number));
            }
            found.add(new PartitionDirectory(partition.values(), Scala.seq(files)));
        }
        return Scala.seq(found);
    }

    /** Returns the file with its choice; a file without a number is not of the listing. */
    private FileStatusWithMetadata withChoice(FileStatusWithMetadata file, Integer number) {
        FileChoice choice = choice(number);
        if (choice == null) return file;
        return new FileStatusWithMetadata(file.fileStatus(), file.metadata().updated(FileChoice.KEY, choice));
    }

    @Override
    public long sizeInBytes() {
        return bytes;
    }

    /** Two scans that read the same ranges of the same files are equal, so that Spark can reuse their exchanges. */
    @Override
    public boolean equals(Object other) {
        return other instanceof SelectedFiles files && all.equals(files.all) && choices.equals(files.choices)
                && Objects.equals(others, files.others) && Objects.equals(only, files.only) && listing.fingerprint().equals(files.listing.fingerprint());
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
