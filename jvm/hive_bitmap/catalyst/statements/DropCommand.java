package hive_bitmap.catalyst.statements;

import hive_bitmap.catalyst.python.IndexTables;
import hive_bitmap.catalyst.spark.Leaf;
import hive_bitmap.catalyst.spark.Names;
import hive_bitmap.catalyst.spark.Scala;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.UnresolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedNamespace;
import org.apache.spark.sql.catalyst.plans.logical.DropNamespace;
import org.apache.spark.sql.catalyst.plans.logical.DropTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import scala.collection.immutable.Seq;

/** DROP TABLE, or DROP DATABASE .. CASCADE: once Spark, which may refuse it, has executed it, Python drops the indexes. */
final class DropCommand extends PythonCommand {
    /** With it, the session's own catalog may have tables that the metastore has not. */
    private static final String SESSION_CATALOG_SETTING = "spark.sql.catalog." + Names.SESSION_CATALOG;

    private final LogicalPlan original;

    private DropCommand(String text, LogicalPlan original) {
        super(text, Scala.seq(List.of()));
        this.original = original;
    }

    /** Returns the command for a statement that Spark parsed to {@code original}, or that if it cannot drop an index. */
    static LogicalPlan of(String text, LogicalPlan original) {
        boolean drops = original instanceof DropTable || original instanceof DropNamespace namespace && namespace.cascade();
        return drops ? new DropCommand(text, original) : original;
    }

    @Override
    public Seq<Row> run(SparkSession session) {
        org.apache.spark.sql.classic.SparkSession classic = (org.apache.spark.sql.classic.SparkSession) session;
        String doomed = mayBeIndexed(classic) ? Statement.doomedIndexes(session, text) : null;
        Dataset.ofRows(classic, original);
        if (doomed != null) Statement.dropIndexes(session, text, doomed);
        return Scala.seq(List.of());
    }

    /** The same as {@link #mayHaveIndexes}. A metastore that cannot say it must not fail the statement, which is Spark's. */
    private boolean mayBeIndexed(org.apache.spark.sql.classic.SparkSession session) {
        try {
            return mayHaveIndexes(session);
        } catch (Exception e) { // Spark's own checked errors are not declared
            Statement.stay(text, e.toString());
            return false;
        }
    }

    /** Whether Python has to be waited for: there is an index table, by its usual name or properties, or a table names one. */
    private boolean mayHaveIndexes(org.apache.spark.sql.classic.SparkSession session) {
        LogicalPlan child = Scala.list(original.children()).get(0);
        if (original instanceof DropTable && child instanceof UnresolvedIdentifier named) {
            return mayHaveIndexes(session, Scala.list(named.nameParts()));
        }
        if (!(child instanceof UnresolvedNamespace named)) return true;
        List<String> name = Scala.list(named.multipartIdentifier());
        if (name.size() > 2 || name.size() == 2 && !name.get(0).equalsIgnoreCase(Names.SESSION_CATALOG)) return false;
        return name.isEmpty() || IndexTables.mayExist(session, name.get(name.size() - 1).toLowerCase(Locale.ROOT));
    }

    private static boolean mayHaveIndexes(org.apache.spark.sql.classic.SparkSession session, List<String> name) {
        if (name.size() > 3) return false;
        String table = name.get(name.size() - 1).toLowerCase(Locale.ROOT);
        String database = name.size() > 1 ? name.get(name.size() - 2).toLowerCase(Locale.ROOT) : session.catalog().currentDatabase();
        String catalog = name.size() == 3 ? name.get(0) : session.catalog().currentCatalog();
        boolean here = catalog.equalsIgnoreCase(Names.SESSION_CATALOG);
        if (here && IndexTables.mayExist(session, database, table)) return true;
        boolean inMetastore = here && session.conf().getOption(SESSION_CATALOG_SETTING).isEmpty();
        return !inMetastore && IndexTables.mayExistOfAnother(session, database, table);
    }

    @Override
    protected Leaf copy() {
        return new DropCommand(text, original);
    }

    @Override
    protected Object[] identity() {
        return new Object[] {text, original};
    }
}
