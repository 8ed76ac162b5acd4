package hive_bitmap.catalyst;

import hive_bitmap.catalyst.queries.IndexAnswer;
import hive_bitmap.catalyst.queries.IndexAnswerExec;
import hive_bitmap.catalyst.queries.IndexScan;
import hive_bitmap.catalyst.queries.Native;
import hive_bitmap.catalyst.reading.NarrowedScanExec;
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
import scala.collection.immutable.Seq;

/** From our leaves of a logical plan to what is executed. */
public final class PlanIndexes extends SparkStrategy {
    private final SparkSession session;

    public PlanIndexes(SparkSession session) {
        this.session = session;
    }

    /** Whether a plan, of nothing but filters and projections, reads a narrowed relation. */
    private static boolean isNarrowed(LogicalPlan plan) {
        LogicalPlan at = plan;
        while (at instanceof Filter || at instanceof Project) at = Scala.list(at.children()).get(0);
        return at instanceof LogicalRelation relation
                && relation.relation() instanceof HadoopFsRelation files && Native.narrowing(files) != null;
    }

    /** Spark's own physical plans with what is read of all around their scans. */
    private static Seq<SparkPlan> shown(Seq<SparkPlan> plans) {
        List<SparkPlan> found = new ArrayList<>();
        for (SparkPlan plan : Scala.list(plans)) {
            found.add((SparkPlan) plan.transformUp(Scala.replacing(one ->
                    one instanceof FileSourceScanExec scan
                            ? new NarrowedScanExec(scan, Native.narrowing(scan.relation())) : null)));
        }
        return Scala.seq(found);
    }

    @Override
    public Seq<SparkPlan> apply(LogicalPlan plan) {
        if (plan instanceof IndexScan scan) {
            return Scala.seq(List.of(new NarrowedScanExec(planLater(scan.rows()), scan.narrowing())));
        }
        if (plan instanceof IndexAnswer answer) return Scala.seq(List.of(new IndexAnswerExec(answer, answer.output())));
        if (plan instanceof KeyCounts counts) return Scala.seq(List.of(new KeyCountsExec(counts.output(), counts.rows())));
        return isNarrowed(plan) ? shown(FileSourceStrategy.apply(plan)) : Scala.seq(List.of());
    }
}
