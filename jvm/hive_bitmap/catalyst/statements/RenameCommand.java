package hive_bitmap.catalyst.statements;

import hive_bitmap.catalyst.spark.Leaf;
import hive_bitmap.catalyst.spark.Scala;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.RenameTable;
import org.apache.spark.sql.execution.command.AlterTableRenameCommand;
import scala.collection.immutable.Seq;

/** ALTER TABLE .. RENAME TO. Python attaches the indexes to the new name after Spark has renamed the table. */
final class RenameCommand extends SparksCommand {
    private final NamedTable former;
    private final List<String> newName;

    private RenameCommand(LogicalPlan original, NamedTable former, List<String> newName) {
        super("ALTER TABLE " + former.sql() + " RENAME TO " + NamedTable.sql(newName.toArray(String[]::new)), original);
        this.former = former;
        this.newName = newName;
    }

    /** Returns the command for a command of Spark; null if that does not rename a table of the session's own catalog. */
    static RenameCommand of(LogicalPlan plan) {
        if (plan instanceof RenameTable rename && !rename.isView() && rename.child() instanceof ResolvedTable table) {
            return of(plan, NamedTable.of(table.catalog(), table.identifier()), Scala.list(rename.newName()));
        }
        if (!(plan instanceof AlterTableRenameCommand rename) || rename.isView()) return null;
        TableIdentifier newIdentifier = rename.newName();
        List<String> parts = newIdentifier.database().isEmpty()
                ? List.of(newIdentifier.table()) : List.of(newIdentifier.database().get(), newIdentifier.table());
        return of(plan, NamedTable.of(rename.oldName()), parts);
    }

    private static RenameCommand of(LogicalPlan plan, NamedTable former, List<String> newName) {
        return former == null || !former.isOfSession() ? null : new RenameCommand(plan, former, newName);
    }

    @Override
    public Seq<Row> run(SparkSession session) {
        org.apache.spark.sql.classic.SparkSession classic = (org.apache.spark.sql.classic.SparkSession) session;
        boolean mayBeIndexed = mayBeIndexed(classic);
        execute(classic);
        if (mayBeIndexed) Statement.attachIndexes(session, text, former.parts(), newName);
        return Scala.seq(List.of());
    }

    /**
     * Returns whether the table may have indexes. A failure of the metastore is only logged, because it must not fail Spark's
     * statement.
     */
    private boolean mayBeIndexed(org.apache.spark.sql.classic.SparkSession session) {
        try {
            return former.mayHaveIndexes(session);
        } catch (Exception e) { // Spark's own checked errors are not declared
            Statement.logNotAttached(text, e.toString());
            return false;
        }
    }

    @Override
    protected Leaf copy() {
        return new RenameCommand(original, former, newName);
    }
}
