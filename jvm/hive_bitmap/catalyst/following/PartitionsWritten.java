package hive_bitmap.catalyst.following;

import hive_bitmap.catalyst.spark.Scala;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.execution.datasources.BasicWriteJobStatsTracker;
import org.apache.spark.sql.execution.datasources.BasicWriteTaskStats;
import org.apache.spark.sql.execution.datasources.WriteTaskStats;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.util.SerializableConfiguration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.collection.immutable.Seq;

/** Collects the partitions that the tasks of an insert have written, up to one more than {@link Write#MOST_PARTITIONS}. */
final class PartitionsWritten {
    private static final Logger LOG = LoggerFactory.getLogger("hive_bitmap");
    private final Set<Map<String, String>> partitions = new LinkedHashSet<>();

    /**
     * Returns the values of each partition by column, as Spark writes them. If there are too many partitions, there is one more
     * than the limit. A map without values stands for partitions that could not be determined.
     */
    synchronized Collection<Map<String, String>> all() {
        return List.copyOf(partitions);
    }

    private synchronized void add(Map<String, String> values) {
        if (partitions.size() <= Write.MOST_PARTITIONS) partitions.add(values);
    }

    /**
     * Returns a tracker of a write's statistics that also collects the partitions.
     *
     * @param sparks Spark's own tracker of the same write, which is sent to the tasks
     */
    BasicWriteJobStatsTracker tracker(
            BasicWriteJobStatsTracker sparks, Configuration hadoop,
            scala.collection.immutable.Map<String, SQLMetric> metrics, Seq<Attribute> columns) {
        return new Tracker(sparks, new SerializableConfiguration(hadoop), metrics, columns, this);
    }

    private static final class Tracker extends BasicWriteJobStatsTracker {
        private final transient BasicWriteJobStatsTracker sparks;
        private final transient Seq<Attribute> columns;
        private final transient PartitionsWritten partitionsWritten;

        Tracker(
                BasicWriteJobStatsTracker sparks, SerializableConfiguration hadoop,
                scala.collection.immutable.Map<String, SQLMetric> metrics, Seq<Attribute> columns, PartitionsWritten partitionsWritten) {
            super(hadoop, metrics);
            this.sparks = sparks;
            this.columns = columns;
            this.partitionsWritten = partitionsWritten;
        }

        @Override
        public void processStats(Seq<WriteTaskStats> stats, long commitMillis) {
            try {
                note(stats);
            } catch (RuntimeException | LinkageError e) { // the write is committed, so this failure must not fail the statement
                LOG.debug("the partitions of a write are unknown", e);
                partitionsWritten.add(Map.of());
            }
            super.processStats(stats, commitMillis);
        }

        private void note(Seq<WriteTaskStats> stats) {
            for (WriteTaskStats taskStats : Scala.list(stats)) {
                if (!(taskStats instanceof BasicWriteTaskStats task)) continue;
                for (InternalRow row : Scala.list(task.partitions())) partitionsWritten.add(values(row));
            }
        }

        private Map<String, String> values(InternalRow row) {
            Map<String, String> values = new HashMap<>();
            int position = 0;
            for (Attribute column : Scala.list(columns)) {
                values.put(column.name(), text(row, position++, column));
            }
            return values;
        }

        private static String text(InternalRow row, int position, Attribute column) {
            if (row.isNullAt(position)) return null;
            Literal value = new Literal(row.get(position, column.dataType()), column.dataType());
            Option<String> zone = Option.apply(SQLConf.get().sessionLocalTimeZone());
            Object text = new Cast(value, DataTypes.StringType, zone, EvalMode.LEGACY()).eval(null);
            return text == null ? null : text.toString();
        }

        /** Returns the tracker to send to tasks, which may lack the classes of this jar. */
        private Object writeReplace() {
            return sparks;
        }
    }
}
