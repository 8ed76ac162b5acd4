package hive_bitmap.catalyst.reading;

import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.NarrowDependency;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.internal.SQLConf;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag;

/**
 * The rows of a file scan in the scan's order, with neighbouring partitions joined. Spark cuts files into splits of a certain size
 * and reads the largest splits first. So even a scan that reads little is planned over all files in their full sizes: then its
 * splits and their order are those of the scan that reads everything.
 */
final class Splits<T> extends RDD<T> {
    private static final long serialVersionUID = 1;
    private final transient List<FilePartition> partitions;

    private Splits(RDD<T> scan, List<FilePartition> partitions, ClassTag<T> type) {
        super(scan.sparkContext(), Scala.seq(List.of(new Unaligned<>(scan))), type);
        this.partitions = partitions;
    }

    /** Joins the partitions of a scan into few, and leaves out splits that are not read. */
    static <T> RDD<T> joined(RDD<T> scan, List<FilePartition> partitions) {
        long open = SQLConf.get().filesOpenCostInBytes();
        List<List<PartitionedFile>> read = new ArrayList<>();
        long total = 0;
        for (FilePartition partition : partitions) {
            List<PartitionedFile> splits = new ArrayList<>();
            for (PartitionedFile split : partition.files()) if (isRead(split)) splits.add(split);
            if (splits.isEmpty()) continue;
            read.add(splits);
            total += bytes(splits, open);
        }
        long maxSize = SplitSize.most(scan.sparkContext(), total);
        List<FilePartition> joined = new ArrayList<>();
        List<PartitionedFile> together = new ArrayList<>();
        long size = 0;
        for (List<PartitionedFile> splits : read) {
            long added = bytes(splits, open);
            if (!together.isEmpty() && size + added > maxSize) {
                add(joined, together);
                size = 0;
            }
            together.addAll(splits);
            size += added;
        }
        if (!together.isEmpty()) add(joined, together);
        return new Splits<>(scan, joined, scan.elementClassTag());
    }

    /** Adds the splits of {@code together} as a partition, and clears {@code together}. */
    private static void add(List<FilePartition> joined, List<PartitionedFile> together) {
        joined.add(new FilePartition(joined.size(), together.toArray(new PartitionedFile[0])));
        together.clear();
    }

    private static boolean isRead(PartitionedFile split) {
        FileChoice choice = FileChoice.of(split);
        return choice == null || choice.isRead(split.start(), split.length());
    }

    private static long bytes(List<PartitionedFile> splits, long open) {
        long sum = 0;
        for (PartitionedFile split : splits) {
            FileChoice choice = FileChoice.of(split);
            sum += open + (choice == null ? split.length() : choice.bytes(split.start(), split.length()));
        }
        return sum;
    }

    @Override
    public Partition[] getPartitions() {
        return partitions.toArray(new Partition[0]);
    }

    @Override
    public Iterator<T> compute(Partition split, TaskContext context) {
        return this.<T>firstParent(elementClassTag()).iterator(split, context);
    }

    @Override
    public Seq<String> getPreferredLocations(Partition split) {
        return Scala.seq(List.of(((FilePartition) split).preferredLocations()));
    }

    /**
     * A dependency on the scan that maps no partition to one of the scan: the scan reads the files of any partition that it is
     * given.
     */
    private static final class Unaligned<T> extends NarrowDependency<T> {
        private static final long serialVersionUID = 1;

        Unaligned(RDD<T> scan) {
            super(scan);
        }

        @Override
        public Seq<Object> getParents(int partition) {
            return Scala.seq(List.of());
        }
    }
}
