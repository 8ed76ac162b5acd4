package hive_bitmap.catalyst.following;

import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.BasicWriteJobStatsTracker;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;
import scala.collection.immutable.Seq;

/** Spark's insert into a table of files that also reports the written partitions. */
final class FollowedInsert extends InsertIntoHadoopFsRelationCommand {
    private final transient PartitionsWritten partitionsWritten;

    FollowedInsert(InsertIntoHadoopFsRelationCommand insert) {
        this(insert, new PartitionsWritten());
    }

    private FollowedInsert(InsertIntoHadoopFsRelationCommand insert, PartitionsWritten partitionsWritten) {
        super(insert.outputPath(), insert.staticPartitions(), insert.ifPartitionNotExists(), insert.partitionColumns(),
                insert.bucketSpec(), insert.fileFormat(), insert.options(), insert.query(), insert.mode(),
                insert.catalogTable(), insert.fileIndex(), insert.outputColumnNames());
        this.partitionsWritten = partitionsWritten;
    }

    /**
     * Returns whether an insert has dynamic partitions: it is into a table of the metastore, and some partition value comes from
     * the rows.
     */
    static boolean isDynamic(InsertIntoHadoopFsRelationCommand insert) {
        return !(insert instanceof FollowedInsert) && insert.catalogTable().isDefined()
                && Scala.javaMap(insert.staticPartitions()).size() < Scala.list(insert.partitionColumns()).size();
    }

    /**
     * Returns the write of an insert that is not {@link #isDynamic}: to the partition that the statement names, to a whole table,
     * or to a folder.
     */
    static Write write(InsertIntoHadoopFsRelationCommand insert) {
        if (insert.catalogTable().isEmpty()) return Write.toFolder(insert.outputPath().toString());
        return Write.bySpecs(insert.catalogTable().get().identifier(), List.of(Scala.javaMap(insert.staticPartitions())));
    }

    /** Returns the name of Spark's own node, so that plans look like Spark's. */
    @Override
    public String nodeName() {
        return "InsertIntoHadoopFsRelationCommand";
    }

    @Override
    public String productPrefix() {
        return nodeName();
    }

    @Override
    public BasicWriteJobStatsTracker basicWriteJobStatsTracker(Configuration hadoop) {
        return partitionsWritten.tracker(super.basicWriteJobStatsTracker(hadoop), hadoop, metrics(), partitionColumns());
    }

    @Override
    public Seq<Row> run(SparkSession session, SparkPlan child) {
        Seq<Row> rows = super.run(session, child);
        Writes.committed(session, this::committedWrite);
        return rows;
    }

    /** Returns the write of this insert. A static overwrite has also emptied all partitions that the statement covers. */
    private Write committedWrite() {
        TableIdentifier table = catalogTable().get().identifier();
        boolean emptied = mode() == SaveMode.Overwrite && !dynamicPartitionOverwrite();
        if (!emptied) return Write.toPartitions(table, partitionsWritten.all());
        List<Map<String, String>> changed = new ArrayList<>(partitionsWritten.all());
        changed.add(Scala.javaMap(staticPartitions()));
        return Write.bySpecs(table, changed);
    }

    @Override
    public InsertIntoHadoopFsRelationCommand withNewChildInternal(LogicalPlan child) {
        return new FollowedInsert(super.withNewChildInternal(child), partitionsWritten);
    }
}
