package hive_bitmap.catalyst.following;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.BasicWriteJobStatsTracker;
import org.apache.spark.sql.hive.execution.InsertIntoHiveTable;
import scala.collection.immutable.Seq;

/** Spark's insert into a table of a Hive SerDe that also reports the written partitions. */
final class FollowedHiveInsert extends InsertIntoHiveTable {
    private final transient PartitionsWritten partitionsWritten;

    FollowedHiveInsert(InsertIntoHiveTable insert) {
        this(insert, new PartitionsWritten());
    }

    private FollowedHiveInsert(InsertIntoHiveTable insert, PartitionsWritten partitionsWritten) {
        super(insert.table(), insert.partition(), insert.query(), insert.overwrite(), insert.ifPartitionNotExists(),
                insert.outputColumnNames(), insert.partitionColumns(), insert.bucketSpec(), insert.options(),
                insert.fileFormat(), insert.hiveTmpPath());
        this.partitionsWritten = partitionsWritten;
    }

    /** Returns the name of Spark's own node, so that plans look like Spark's. */
    @Override
    public String nodeName() {
        return "InsertIntoHiveTable";
    }

    @Override
    public String productPrefix() {
        return nodeName();
    }

    @Override
    public BasicWriteJobStatsTracker basicWriteJobStatsTracker(Configuration hadoop) {
        return partitionsWritten.tracker(super.basicWriteJobStatsTracker(hadoop), hadoop, metrics(), partitionColumns());
    }

    /**
     * Runs the insert and reports the written partitions. No others change, because Hive overwrites only partitions that get rows.
     */
    @Override
    public Seq<Row> run(SparkSession session, SparkPlan child) {
        Seq<Row> rows = super.run(session, child);
        Writes.committed(session, () -> Write.toPartitions(table().identifier(), partitionsWritten.all()));
        return rows;
    }

    @Override
    public InsertIntoHiveTable withNewChildInternal(LogicalPlan child) {
        return new FollowedHiveInsert(super.withNewChildInternal(child), partitionsWritten);
    }
}
