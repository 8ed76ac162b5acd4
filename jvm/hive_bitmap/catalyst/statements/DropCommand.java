package hive_bitmap.catalyst.statements;

import hive_bitmap.catalyst.python.IndexTables;
import hive_bitmap.catalyst.spark.Leaf;
import hive_bitmap.catalyst.spark.Names;
import hive_bitmap.catalyst.spark.Scala;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.ResolvedNamespace;
import org.apache.spark.sql.catalyst.plans.logical.DropNamespace;
import org.apache.spark.sql.catalyst.plans.logical.DropTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.command.DropDatabaseCommand;
import org.apache.spark.sql.execution.command.DropTableCommand;
import scala.collection.immutable.Seq;

/**
 * DROP TABLE or DROP DATABASE .. CASCADE. Python drops the indexes after Spark has executed the statement, which Spark may refuse.
 */
final class DropCommand extends SparksCommand {
    private final NamedTable table; // null: all tables of the database
    private final String database;

    private DropCommand(String text, LogicalPlan original, NamedTable table, String database) {
        super(text, original);
        this.table = table;
        this.database = database;
    }

    /**
     * Returns the command for a command of Spark; null if that cannot drop an index, for example because it drops a temporary view.
     */
    static DropCommand of(LogicalPlan plan) {
        if (plan instanceof DropTable drop && drop.child() instanceof ResolvedIdentifier name) {
            return ofTable(plan, NamedTable.of(name.catalog(), name.identifier()));
        }
        if (plan instanceof DropTableCommand drop) return drop.isView() ? null : ofTable(plan, NamedTable.of(drop.tableName()));
        if (plan instanceof DropNamespace drop && drop.cascade() && drop.namespace() instanceof ResolvedNamespace name) {
            List<String> parts = Scala.list(name.namespace());
            boolean isOfSession = name.catalog().name().equalsIgnoreCase(Names.SESSION_CATALOG) && parts.size() == 1;
            return isOfSession ? ofDatabase(plan, parts.get(0)) : null;
        }
        return plan instanceof DropDatabaseCommand drop && drop.cascade() ? ofDatabase(plan, drop.databaseName()) : null;
    }

    private static DropCommand ofTable(LogicalPlan plan, NamedTable table) {
        return table == null ? null : new DropCommand("DROP TABLE " + table.sql(), plan, table, table.database());
    }

    private static DropCommand ofDatabase(LogicalPlan plan, String database) {
        String name = NamedTable.sql(Names.SESSION_CATALOG, database);
        return new DropCommand("DROP DATABASE " + name + " CASCADE", plan, null, database);
    }

    @Override
    public Seq<Row> run(SparkSession session) {
        org.apache.spark.sql.classic.SparkSession classic = (org.apache.spark.sql.classic.SparkSession) session;
        String indexesToDrop = mayBeIndexed(classic) ? Statement.indexesToDrop(session, text) : null;
        execute(classic);
        if (indexesToDrop != null) Statement.dropIndexes(session, text, indexesToDrop);
        return Scala.seq(List.of());
    }

    /**
     * Returns whether the dropped table or database may have indexes. A failure of the metastore is only logged, because it must
     * not fail Spark's statement.
     */
    private boolean mayBeIndexed(org.apache.spark.sql.classic.SparkSession session) {
        try {
            if (table != null) return table.mayHaveIndexes(session);
            return IndexTables.mayExist(session, database.toLowerCase(Locale.ROOT));
        } catch (Exception e) { // Spark's own checked errors are not declared
            Statement.logNotDropped(text, e.toString());
            return false;
        }
    }

    @Override
    protected Leaf copy() {
        return new DropCommand(text, original, table, database);
    }
}
