package hive_bitmap.catalyst.following;

import hive_bitmap.catalyst.python.Settings;
import hive_bitmap.catalyst.spark.Scala;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.command.DataWritingCommandExec;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;
import scala.collection.immutable.Seq;

/**
 * The planner strategy that reports a session's writes. It registers {@link WriteListener} before the first command. It replaces
 * Spark's insert with dynamic partitions by one that also reports the written partitions.
 */
public final class FollowInserts extends SparkStrategy {
    private final SparkSession session;

    public FollowInserts(SparkSession session) {
        this.session = session;
    }

    @Override
    public Seq<SparkPlan> apply(LogicalPlan plan) {
        if (!(plan instanceof Command) || !Settings.autoRefresh(session)) return Scala.seq(List.of());
        WriteListener.register(session);
        Followed.mark(plan);
        if (plan instanceof InsertIntoHadoopFsRelationCommand insert && FollowedInsert.isDynamic(insert)) {
            FollowedInsert followed = new FollowedInsert(insert);
            return Scala.seq(List.of(new DataWritingCommandExec(followed, planLater(followed.query()))));
        }
        if (HiveInserts.isDynamic(plan)) {
            FollowedHiveInsert followed = HiveInserts.followed(plan);
            return Scala.seq(List.of(new DataWritingCommandExec(followed, planLater(followed.query()))));
        }
        return Scala.seq(List.of());
    }
}
