package hive_bitmap.catalyst;

import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import scala.collection.immutable.Seq;

/** From our leaves of a logical plan to what is executed. */
public final class PlanIndexes extends SparkStrategy {
    private final SparkSession session;

    public PlanIndexes(SparkSession session) {
        this.session = session;
    }

    @Override
    public Seq<SparkPlan> apply(LogicalPlan plan) {
        if (plan instanceof IndexScan scan) return Scala.seq(List.of(planLater(scan.rows())));
        if (plan instanceof IndexAnswer answer) return Scala.seq(List.of(new IndexAnswerExec(answer, answer.output())));
        if (plan instanceof KeyCounts counts) return Scala.seq(List.of(new KeyCountsExec(counts.output(), counts.rows())));
        return Scala.seq(List.of());
    }
}
