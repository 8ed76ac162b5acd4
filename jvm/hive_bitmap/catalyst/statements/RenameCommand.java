package hive_bitmap.catalyst.statements;

import hive_bitmap.catalyst.python.IndexTables;
import hive_bitmap.catalyst.spark.Leaf;
import hive_bitmap.catalyst.spark.Scala;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableOrView;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.RenameTable;
import org.apache.spark.sql.classic.Dataset;
import scala.collection.immutable.Seq;

/** ALTER TABLE .. RENAME TO: once Spark has renamed the table, Python has its indexes come along. */
final class RenameCommand extends PythonCommand {
    private final RenameTable original;
    private final List<String> former;

    private RenameCommand(String text, RenameTable original, List<String> former) {
        super(text, Scala.seq(List.of()));
        this.original = original;
        this.former = former;
    }

    /** Returns the command for a statement that Spark parsed to {@code original}, or that if it renames no table. */
    static LogicalPlan of(String text, LogicalPlan original) {
        boolean renames = original instanceof RenameTable rename && !rename.isView()
                && rename.child() instanceof UnresolvedTableOrView;
        if (!renames) return original;
        RenameTable rename = (RenameTable) original;
        List<String> former = Scala.list(((UnresolvedTableOrView) rename.child()).multipartIdentifier());
        return new RenameCommand(text, rename, former);
    }

    @Override
    public Seq<Row> run(SparkSession session) {
        org.apache.spark.sql.classic.SparkSession classic = (org.apache.spark.sql.classic.SparkSession) session;
        boolean mayBeIndexed = mayBeIndexed(classic);
        Dataset.ofRows(classic, original);
        if (mayBeIndexed) Statement.attachIndexes(session, text, former, Scala.list(original.newName()));
        return Scala.seq(List.of());
    }

    /** Whether the table may have indexes. A metastore that cannot say it must not fail the statement, which is Spark's. */
    private boolean mayBeIndexed(org.apache.spark.sql.classic.SparkSession session) {
        try {
            return IndexTables.mayExist(session, former);
        } catch (Exception e) { // Spark's own checked errors are not declared
            Statement.haveNotCome(text, e.toString());
            return false;
        }
    }

    @Override
    protected Leaf copy() {
        return new RenameCommand(text, original, former);
    }

    @Override
    protected Object[] identity() {
        return new Object[] {text, original};
    }
}
