package hive_bitmap.catalyst.statements;

import hive_bitmap.catalyst.spark.Scala;
import hive_bitmap.catalyst.spark.SideQuery;
import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.command.ExecutedCommandExec;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * The planner strategy that drops or renames indexes with their tables. It gets commands that Spark has analyzed, so it does not
 * matter how a statement names a table, or which program executes it.
 */
public final class AlongWithTables extends SparkStrategy {
    /** The beginning of a DROP that Python executes itself; the same as in hive_bitmap/spark/metastore/metastore.py. */
    private static final String OURS = "/* hive_bitmap */";

    @Override
    public Seq<SparkPlan> apply(LogicalPlan plan) {
        PythonCommand command = plan instanceof Command && isOurConcern(plan) ? command(plan) : null;
        return Scala.seq(command == null ? List.of() : List.of(new ExecutedCommandExec(command)));
    }

    private static boolean isOurConcern(LogicalPlan plan) {
        Option<String> text = plan.origin().sqlText();
        boolean isOurs = text.isDefined() && text.get().startsWith(OURS);
        return !isOurs && !SideQuery.isRunning() && Statements.isEnabled();
    }

    private static PythonCommand command(LogicalPlan plan) {
        PythonCommand drop = DropCommand.of(plan);
        return drop == null ? RenameCommand.of(plan) : drop;
    }
}
