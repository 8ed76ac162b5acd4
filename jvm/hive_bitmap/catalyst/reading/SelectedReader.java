package hive_bitmap.catalyst.reading;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.util.SerializableConfiguration;
import scala.Function1;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.reflect.ClassTag;
import scala.runtime.AbstractFunction1;

/**
 * Reads the selected ranges of each split of a file in a task. Spark's own reader reads a row group if its middle is in a range,
 * and a stripe if its first byte is. A file that has changed since it was indexed is read whole.
 */
public final class SelectedReader extends AbstractFunction1<PartitionedFile, Iterator<InternalRow>> implements Serializable {
    private final Function1<PartitionedFile, Iterator<InternalRow>> reader;
    private final Broadcast<SerializableConfiguration> conf;

    private SelectedReader(Function1<PartitionedFile, Iterator<InternalRow>> reader, Broadcast<SerializableConfiguration> conf) {
        this.reader = reader;
        this.conf = conf;
    }

    /** Restricts a reader to the selected ranges of each split. */
    public static Function1<PartitionedFile, Iterator<InternalRow>> over(
            Function1<PartitionedFile, Iterator<InternalRow>> reader, SparkSession session, Configuration conf) {
        return new SelectedReader(reader, broadcast(session, conf));
    }

    private static Broadcast<SerializableConfiguration> broadcast(SparkSession session, Configuration conf) {
        ClassTag<SerializableConfiguration> tag = scala.reflect.ClassTag$.MODULE$.apply(SerializableConfiguration.class);
        return session.sparkContext().broadcast(new SerializableConfiguration(conf), tag);
    }

    @Override
    public Iterator<InternalRow> apply(PartitionedFile split) {
        FileChoice choice = FileChoice.of(split);
        if (choice == null) return reader.apply(split);
        if (!choice.isRead(split.start(), split.length())) return rowsOf(Iterator.empty());
        if (choice.isImmutable()) return rowsOf(new Ranges(split, choice));
        try {
            FileStatus current = BaseFile.status(split.toPath(), choice, conf.value().value());
            if (!BaseFile.isUnchanged(current, choice, conf.value().value())) return reader.apply(whole(split, choice, current));
            return rowsOf(new Ranges(split, choice));
        } catch (FileNotFoundException e) {
            return reader.apply(split); // Spark's reader reports the missing file, or skips it if spark.sql.files.ignoreMissingFiles is set
        } catch (IOException e) {
            throw new UncheckedIOException("cannot look at " + split.toPath(), e);
        }
    }

    @SuppressWarnings("unchecked")
    private static Iterator<InternalRow> rowsOf(Iterator<?> rows) {
        return (Iterator<InternalRow>) rows;
    }

    /** Returns a split for a file that was replaced since it was indexed. The last split ends at the file's new end. */
    private static PartitionedFile whole(PartitionedFile split, FileChoice choice, FileStatus current) {
        long start = choice.readsNothing() ? 0 : split.start();
        boolean isLast = choice.readsNothing() || split.start() + split.length() >= choice.size();
        long length = isLast ? Math.max(current.getLen() - start, 0) : split.length();
        return piece(split, start, length, current.getLen(), current.getModificationTime());
    }

    private static PartitionedFile piece(PartitionedFile split, long start, long length, long size, long modified) {
        return new PartitionedFile(
                split.partitionValues(), split.filePath(), start, length, split.locations(), modified, size,
                split.otherConstantMetadataColumnValues());
    }

    /** Iterates over the rows, or batches of rows, of the ranges in a split, in order. */
    private final class Ranges extends AbstractIterator<Object> {
        private final PartitionedFile split;
        private final FileChoice choice;
        private int next;
        private boolean opened;
        private Iterator<?> rows = Iterator.empty();

        Ranges(PartitionedFile split, FileChoice choice) {
            this.split = split;
            this.choice = choice;
        }

        @Override
        public boolean hasNext() {
            while (!rows.hasNext()) {
                PartitionedFile range = nextRange();
                if (range == null) {
                    requireUnchanged();
                    return false;
                }
                opened = true;
                rows = reader.apply(range);
            }
            return true;
        }

        @Override
        public Object next() {
            if (!hasNext()) throw new java.util.NoSuchElementException();
            return rows.next();
        }

        private PartitionedFile nextRange() {
            while (next < choice.ranges().length) {
                long start = Math.max(choice.ranges()[next], split.start());
                long end = Math.min(choice.ranges()[next + 1], split.start() + split.length());
                next += 2;
                if (start < end) return piece(split, start, end - start, choice.size(), split.modificationTime());
            }
            return null;
        }

        /** Fails the query if the file changed while it was read, because its rows may then be those of two versions. */
        private void requireUnchanged() {
            if (!opened || choice.isImmutable()) return;
            opened = false;
            try {
                if (BaseFile.isUnchanged(BaseFile.status(split.toPath(), conf.value().value()), choice, conf.value().value())) return;
            } catch (IOException e) {
                throw new UncheckedIOException(split.toPath() + " cannot be looked at after it was read", e);
            }
            throw new IllegalStateException(split.toPath() + " was replaced while it was read: run the query again");
        }
    }
}
