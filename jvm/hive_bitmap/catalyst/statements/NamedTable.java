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

/** A table as Spark has resolved it: in a catalog, and in one database of that. */
record NamedTable(String catalog, String database, String table) {
    /** With it, the session's own catalog may have tables that the metastore has not. */
    private static final String SESSION_CATALOG_SETTING = "spark.sql.catalog." + Names.SESSION_CATALOG;

    /** Returns null for a table that is not in one database. */
    static NamedTable of(CatalogPlugin catalog, Identifier name) {
        return name.namespace().length == 1 ? new NamedTable(catalog.name(), name.namespace()[0], name.name()) : null;
    }

    /** Returns null for a name without a database: of a temporary view. */
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

    /** Database and table. */
    List<String> parts() {
        return List.of(database, table);
    }

    /** Whether Python has to be waited for: there is an index table, by its usual name or properties, or the table names one. */
    boolean mayHaveIndexes(SparkSession session) {
        String here = database.toLowerCase(Locale.ROOT);
        String name = table.toLowerCase(Locale.ROOT);
        if (isOfSession() && IndexTables.mayExist(session, here, name)) return true;
        boolean inMetastore = isOfSession() && session.conf().getOption(SESSION_CATALOG_SETTING).isEmpty();
        return !inMetastore && IndexTables.mayExistOfAnother(session, here, name);
    }
}
