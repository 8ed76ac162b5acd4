package hive_bitmap.catalyst;

import hive_bitmap.catalyst.lake.IcebergScan;
import hive_bitmap.catalyst.observing.Application;
import hive_bitmap.catalyst.queries.DecidedRows;
import hive_bitmap.catalyst.queries.DecidedRowsExec;
import hive_bitmap.catalyst.queries.IndexScan;
import hive_bitmap.catalyst.queries.NarrowedRelations;
import hive_bitmap.catalyst.reading.Listing;
import hive_bitmap.catalyst.reading.NarrowedScanExec;
import hive_bitmap.catalyst.reading.Narrowing;
import hive_bitmap.catalyst.spark.KeyCounts;
import hive_bitmap.catalyst.spark.KeyCountsExec;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.FileSourceStrategy;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy;
import scala.collection.immutable.Seq;

/** The planner strategy for the leaves that {@link UseIndexes} puts into logical plans. */
public final class PlanIndexes extends SparkStrategy {
    private final SparkSession session;

    public PlanIndexes(SparkSession session) {
        this.session = session;
    }

    /** Returns the node below all filters and projections. */
    private static LogicalPlan below(LogicalPlan plan) {
        LogicalPlan below = plan;
        while (below instanceof Filter || below instanceof Project) below = Scala.list(below.children()).get(0);
        return below;
    }

    /** Wraps the narrowed scans in Spark's physical plans, so that plans show what they read. */
    private static Seq<SparkPlan> wrapped(Seq<SparkPlan> plans) {
        List<SparkPlan> wrapped = new ArrayList<>();
        for (SparkPlan plan : Scala.list(plans)) {
            wrapped.add((SparkPlan) plan.transformUp(Scala.replacing(node -> {
                Narrowing narrowing = narrowing(node);
                return narrowing == null ? null : new NarrowedScanExec(node, narrowing);
            })));
        }
        return Scala.seq(wrapped);
    }

    /** Returns the figures of a narrowed physical scan; null for any other plan. */
    private static Narrowing narrowing(SparkPlan plan) {
        if (plan instanceof FileSourceScanExec scan) return NarrowedRelations.narrowing(scan.relation());
        return plan instanceof BatchScanExec batch && batch.scan() instanceof IcebergScan scan ? scan.narrowing() : null;
    }

    @Override
    public Seq<SparkPlan> apply(LogicalPlan plan) {
        if (plan instanceof IndexScan scan) {
            return Scala.seq(List.of(NarrowedScanExec.unless(() -> scan.instead(session), planLater(scan.rows()), scan.narrowing())));
        }
        if (plan instanceof DecidedRows rows) return Scala.seq(List.of(new DecidedRowsExec(rows)));
        if (plan instanceof KeyCounts counts) return Scala.seq(List.of(new KeyCountsExec(counts.output(), counts.rows())));
        LogicalPlan below = below(plan);
        if (below instanceof DataSourceV2ScanRelation read && read.scan() instanceof IcebergScan) {
            return wrapped(new DataSourceV2Strategy((org.apache.spark.sql.classic.SparkSession) session).apply(plan));
        }
        if (!(below instanceof LogicalRelation relation) || !(relation.relation() instanceof HadoopFsRelation files)) {
            return Scala.seq(List.of());
        }
        if (NarrowedRelations.narrowing(files) != null) return wrapped(FileSourceStrategy.apply(plan));
        if (Listing.isListed(files.location()) && !Scala.list(relation.output()).isEmpty()) {
            Application.sized(Scala.list(relation.output()).get(0), files.location()::sizeInBytes);
        }
        return Scala.seq(List.of());
    }
}
