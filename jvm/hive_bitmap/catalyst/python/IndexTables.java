package hive_bitmap.catalyst.python;

import hive_bitmap.catalyst.spark.Scala;
import java.util.List;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalog;
import org.apache.spark.sql.classic.SparkSession;
import scala.jdk.javaapi.CollectionConverters;

/** Checks by names and properties whether the metastore may have index tables, so that it is worth waiting for Python. */
public final class IndexTables {
    private static final int AT_ONCE = 100; // tables fetched in one call
    private static final String OURS = "hive_bitmap."; // prefix of properties of index tables, and of tables that point at index tables (IN TABLE)

    private IndexTables() {}

    /**
     * Returns whether a table exists and may have an index, or is an index table. It may have an index if an index table with the
     * usual name exists, or if its properties name an index table. Calls the metastore.
     */
    public static boolean mayExist(SparkSession session, String database, String table) {
        ExternalCatalog catalog = session.sharedState().externalCatalog();
        if (!catalog.databaseExists(database) || !catalog.tableExists(database, table)) return false;
        return !Scala.list(catalog.listTables(database, database + "__" + table + "_*__")).isEmpty()
                || isOurs(catalog, database, table);
    }

    /**
     * Returns whether a table of another catalog may have an index: whether an index table with the usual name exists. Calls the
     * metastore.
     */
    public static boolean mayExistOfAnother(SparkSession session, String database, String table) {
        ExternalCatalog catalog = session.sharedState().externalCatalog();
        return catalog.databaseExists(database) && !Scala.list(catalog.listTables(database, database + "__" + table + "_*__")).isEmpty();
    }

    /**
     * Returns whether a database exists and may have indexes: some table is an index table, or has properties that name one.
     * Calls the metastore.
     */
    public static boolean mayExist(SparkSession session, String database) {
        ExternalCatalog catalog = session.sharedState().externalCatalog();
        if (!catalog.databaseExists(database)) return false;
        if (!Scala.list(catalog.listTables(database, database + "__*__")).isEmpty()) return true;
        List<String> tables = Scala.list(catalog.listTables(database));
        for (int from = 0; from < tables.size(); from += AT_ONCE) {
            List<String> batch = tables.subList(from, Math.min(from + AT_ONCE, tables.size()));
            if (isAnyOurs(catalog, database, batch)) return true;
        }
        return false;
    }

    /**
     * Returns whether any of these tables has properties of hive_bitmap. The tables are fetched in one call, or if that fails for a
     * table that Spark cannot read, one by one.
     */
    private static boolean isAnyOurs(ExternalCatalog catalog, String database, List<String> tables) {
        try {
            return Scala.list(catalog.getTablesByName(database, Scala.seq(tables))).stream().anyMatch(IndexTables::isOurs);
        } catch (Exception e) {
            if (isOfMetastore(e)) throw e;
            return tables.stream().anyMatch(table -> isOurs(catalog, database, table));
        }
    }

    /**
     * Returns whether a table exists and has properties of hive_bitmap. A table that Spark cannot read, for example for a type that
     * only Hive has, counts as a table without such properties.
     */
    private static boolean isOurs(ExternalCatalog catalog, String database, String table) {
        try {
            return isOurs(catalog.getTable(database, table));
        } catch (Exception e) {
            if (isOfMetastore(e) && !(e instanceof NoSuchTableException)) throw e;
            return false;
        }
    }

    /** Returns whether the metastore has failed or lacks an object. Any other error comes from the description of a table. */
    private static boolean isOfMetastore(Exception error) {
        return error instanceof AnalysisException;
    }

    /** Returns whether a table has properties of hive_bitmap. */
    private static boolean isOurs(CatalogTable table) {
        return CollectionConverters.asJava(table.properties()).keySet().stream().anyMatch(name -> name.startsWith(OURS));
    }
}
