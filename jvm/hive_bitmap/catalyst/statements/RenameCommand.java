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

/** ALTER TABLE .. RENAME TO: once Spark has renamed the table, Python has its indexes come along. */
final class RenameCommand extends SparksCommand {
    private final NamedTable former;
    private final List<String> now;

    private RenameCommand(LogicalPlan original, NamedTable former, List<String> now) {
        super("ALTER TABLE " + former.sql() + " RENAME TO " + NamedTable.sql(now.toArray(String[]::new)), original);
        this.former = former;
        this.now = now;
    }

    /** Returns the command for one of Spark's; null if that renames no table of the session's own catalog. */
    static RenameCommand of(LogicalPlan plan) {
        if (plan instanceof RenameTable rename && !rename.isView() && rename.child() instanceof ResolvedTable table) {
            return of(plan, NamedTable.of(table.catalog(), table.identifier()), Scala.list(rename.newName()));
        }
        if (!(plan instanceof AlterTableRenameCommand rename) || rename.isView()) return null;
        TableIdentifier now = rename.newName();
        List<String> parts = now.database().isEmpty() ? List.of(now.table()) : List.of(now.database().get(), now.table());
        return of(plan, NamedTable.of(rename.oldName()), parts);
    }

    private static RenameCommand of(LogicalPlan plan, NamedTable former, List<String> now) {
        return former == null || !former.isOfSession() ? null : new RenameCommand(plan, former, now);
    }

    @Override
    public Seq<Row> run(SparkSession session) {
        org.apache.spark.sql.classic.SparkSession classic = (org.apache.spark.sql.classic.SparkSession) session;
        boolean mayBeIndexed = mayBeIndexed(classic);
        execute(classic);
        if (mayBeIndexed) Statement.attachIndexes(session, text, former.parts(), now);
        return Scala.seq(List.of());
    }

    /** Whether the table may have indexes. A metastore that cannot say it must not fail the statement, which is Spark's. */
    private boolean mayBeIndexed(org.apache.spark.sql.classic.SparkSession session) {
        try {
            return former.mayHaveIndexes(session);
        } catch (Exception e) { // Spark's own checked errors are not declared
            Statement.haveNotCome(text, e.toString());
            return false;
        }
    }

    @Override
    protected Leaf copy() {
        return new RenameCommand(original, former, now);
    }
}
