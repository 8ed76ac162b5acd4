package hive_bitmap.catalyst.python;

import hive_bitmap.catalyst.spark.Scala;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalog;
import org.apache.spark.sql.classic.SparkSession;
import scala.jdk.javaapi.CollectionConverters;

/** Index tables in the metastore, as far as their names tell: whether it is worth waiting for Python. */
public final class IndexTables {
    private static final String POINTER = "hive_bitmap.index_tables"; // property of a table: index tables named by IN TABLE

    private IndexTables() {}

    /** Whether a table exists and an index table has its usual name, or the table names one. Asks the metastore. */
    public static boolean mayExist(SparkSession session, String database, String table) {
        ExternalCatalog catalog = session.sharedState().externalCatalog();
        if (!catalog.databaseExists(database) || !catalog.tableExists(database, table)) return false;
        return !Scala.list(catalog.listTables(database, database + "__" + table + "_*__")).isEmpty()
                || CollectionConverters.asJava(catalog.getTable(database, table).properties()).containsKey(POINTER);
    }
}
