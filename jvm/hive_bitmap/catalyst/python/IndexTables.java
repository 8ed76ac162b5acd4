package hive_bitmap.catalyst.python;

import hive_bitmap.catalyst.spark.Scala;
import java.util.List;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalog;
import org.apache.spark.sql.classic.SparkSession;
import scala.jdk.javaapi.CollectionConverters;

/** Index tables in the metastore, by names and properties: whether it is worth waiting for Python. */
public final class IndexTables {
    private static final int AT_ONCE = 100; // tables that are asked for in one call
    private static final String OURS = "hive_bitmap."; // of an index table, and of a table that names some by IN TABLE

    private IndexTables() {}

    /** Whether a table exists, and an index table has its usual name, or the table names one or is one. Asks the metastore. */
    public static boolean mayExist(SparkSession session, String database, String table) {
        ExternalCatalog catalog = session.sharedState().externalCatalog();
        if (!catalog.databaseExists(database) || !catalog.tableExists(database, table)) return false;
        return !Scala.list(catalog.listTables(database, database + "__" + table + "_*__")).isEmpty()
                || isOurs(catalog, database, table);
    }

    /** Whether an index table has the usual name of one on a table in another catalog. Asks the metastore. */
    public static boolean mayExistOfAnother(SparkSession session, String database, String table) {
        ExternalCatalog catalog = session.sharedState().externalCatalog();
        return catalog.databaseExists(database) && !Scala.list(catalog.listTables(database, database + "__" + table + "_*__")).isEmpty();
    }

    /** Whether a database exists, and any of its tables is an index table or names one. Asks the metastore. */
    public static boolean mayExist(SparkSession session, String database) {
        ExternalCatalog catalog = session.sharedState().externalCatalog();
        if (!catalog.databaseExists(database)) return false;
        if (!Scala.list(catalog.listTables(database, database + "__*__")).isEmpty()) return true;
        List<String> tables = Scala.list(catalog.listTables(database));
        for (int from = 0; from < tables.size(); from += AT_ONCE) {
            List<String> some = tables.subList(from, Math.min(from + AT_ONCE, tables.size()));
            if (isAnyOurs(catalog, database, some)) return true;
        }
        return false;
    }

    /** Asks for all of these tables at once; one that Spark cannot read would hide the others, which are asked for alone then. */
    private static boolean isAnyOurs(ExternalCatalog catalog, String database, List<String> tables) {
        try {
            return Scala.list(catalog.getTablesByName(database, Scala.seq(tables))).stream().anyMatch(IndexTables::isOurs);
        } catch (Exception e) {
            if (isOfMetastore(e)) throw e;
            return tables.stream().anyMatch(table -> isOurs(catalog, database, table));
        }
    }

    /** Whether a table is there and ours. One that Spark cannot read has no index: a column of a type that only Hive knows. */
    private static boolean isOurs(ExternalCatalog catalog, String database, String table) {
        try {
            return isOurs(catalog.getTable(database, table));
        } catch (Exception e) {
            if (isOfMetastore(e) && !(e instanceof NoSuchTableException)) throw e;
            return false;
        }
    }

    /** Whether an error says that the metastore has failed, or what it has not; any other is about the description of a table. */
    private static boolean isOfMetastore(Exception error) {
        return error instanceof AnalysisException;
    }

    private static boolean isOurs(CatalogTable table) {
        return CollectionConverters.asJava(table.properties()).keySet().stream().anyMatch(name -> name.startsWith(OURS));
    }
}
