package hive_bitmap.catalyst.statements;

import hive_bitmap.catalyst.python.IndexTables;
import hive_bitmap.catalyst.spark.Names;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;

/** A table as Spark has resolved it: by catalog, database and name. */
record NamedTable(String catalog, String database, String table) {
    /** The setting that replaces the session's own catalog, which may then have tables that are not in the metastore. */
    private static final String SESSION_CATALOG_SETTING = "spark.sql.catalog." + Names.SESSION_CATALOG;

    /** Returns a table by catalog and identifier; null if the namespace of the identifier is not a single database. */
    static NamedTable of(CatalogPlugin catalog, Identifier name) {
        return name.namespace().length == 1 ? new NamedTable(catalog.name(), name.namespace()[0], name.name()) : null;
    }

    /** Returns a table of the session's catalog; null if the name has no database, which means a temporary view. */
    static NamedTable of(TableIdentifier name) {
        return name.database().isEmpty() ? null : new NamedTable(Names.SESSION_CATALOG, name.database().get(), name.table());
    }

    boolean isOfSession() {
        return catalog.equalsIgnoreCase(Names.SESSION_CATALOG);
    }

    String sql() {
        return sql(catalog, database, table);
    }

    static String sql(String... parts) {
        return Arrays.stream(parts).map(part -> "`" + part.replace("`", "``") + "`").collect(Collectors.joining("."));
    }

    /** Returns the database and the name of the table. */
    List<String> parts() {
        return List.of(database, table);
    }

    /**
     * Returns whether the table may have indexes, so that Python has to be called: the metastore has an index table with the
     * usual name for it, or its properties say that it is or has an index table.
     */
    boolean mayHaveIndexes(SparkSession session) {
        String lowerDatabase = database.toLowerCase(Locale.ROOT);
        String name = table.toLowerCase(Locale.ROOT);
        if (isOfSession() && IndexTables.mayExist(session, lowerDatabase, name)) return true;
        boolean inMetastore = isOfSession() && session.conf().getOption(SESSION_CATALOG_SETTING).isEmpty();
        return !inMetastore && IndexTables.mayExistOfAnother(session, lowerDatabase, name);
    }
}
