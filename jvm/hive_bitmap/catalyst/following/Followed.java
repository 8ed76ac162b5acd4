package hive_bitmap.catalyst.following;

import hive_bitmap.catalyst.spark.Scala;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.execution.SparkPlan;

/**
 * Marks commands whose writes are reported. The session's settings decide this when a command is planned; listeners see the command
 * later, perhaps after the settings have changed.
 */
final class Followed {
    private static final TreeNodeTag<Boolean> FOLLOWED = new TreeNodeTag<>("hive_bitmap.followed");

    private Followed() {}

    static void mark(LogicalPlan command) {
        command.setTagValue(FOLLOWED, true);
    }

    static boolean is(SparkPlan command) {
        return command.logicalLink().exists(Scala.predicate(planned -> planned.getTagValue(FOLLOWED).isDefined()));
    }
}
