package hive_bitmap.catalyst.spark;

import java.util.Arrays;
import org.apache.spark.Partition;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import scala.collection.Iterator;
import scala.reflect.ClassTag$;

/** An RDD whose rows are in the driver. They are one partition, sent with a task, and may be replaced before another job. */
final class DriverRowsRDD extends RDD<InternalRow> {
    private static final long serialVersionUID = 1;
    private final transient Rows partition;

    DriverRowsRDD(SparkContext context, InternalRow[] rows) {
        super(context, Scala.seq(java.util.List.of()), ClassTag$.MODULE$.apply(InternalRow.class));
        this.partition = new Rows(rows);
    }

    /** Replaces the rows. Running jobs keep the rows that were sent with their tasks. */
    void rows(InternalRow[] rows) {
        partition.content = rows;
    }

    /** Makes the tasks of further jobs fail. */
    void fail(Exception error) {
        partition.content = error;
    }

    @Override
    public Partition[] getPartitions() {
        return new Partition[] {partition};
    }

    @Override
    public Iterator<InternalRow> compute(Partition split, TaskContext context) {
        return scala.jdk.javaapi.CollectionConverters.asScala(Arrays.asList(((Rows) split).rows()).iterator());
    }

    private static final class Rows implements Partition {
        private static final long serialVersionUID = 1;
        private volatile Object content; // the rows, or the Exception to raise

        Rows(InternalRow[] rows) {
            this.content = rows;
        }

        InternalRow[] rows() {
            Object current = content;
            if (current instanceof Exception error) throw new IllegalStateException(error.getMessage(), error);
            return (InternalRow[]) current;
        }

        @Override
        public int index() {
            return 0;
        }

        @Override
        public int hashCode() {
            return 0;
        }

        @Override
        public boolean equals(Object other) {
            return this == other;
        }
    }
}
