package hive_bitmap.catalyst.statements;

import hive_bitmap.catalyst.spark.Scala;
import hive_bitmap.catalyst.spark.SideQuery;
import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;

/** A command of Spark that also has Python drop or attach indexes. */
abstract class SparksCommand extends PythonCommand {
    final LogicalPlan original;

    SparksCommand(String text, LogicalPlan original) {
        super(text, Scala.seq(List.of()));
        this.original = original;
    }

    /** Executes Spark's own command by Spark's own plan. */
    void execute(SparkSession session) {
        SparkPlan planned = SideQuery.within(() -> session.sessionState().planner().plan(original).next());
        planned.executeCollect();
    }

    @Override
    protected Object[] identity() {
        return new Object[] {text, original};
    }
}
