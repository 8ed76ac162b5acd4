package hive_bitmap.catalyst.following;

import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Option;

/**
 * Names the table that a command writes to, if a log lists the files of the table. It recognises the commands of Delta, and Spark's
 * own commands for other such tables (INSERT, and Iceberg's DELETE, UPDATE and MERGE).
 */
final class LogWrites {
    private static final String OF_DELTA = "org.apache.spark.sql.delta.commands.";
    private static final String TABLE_OF_DELTA = "org.apache.spark.sql.delta.catalog.DeltaTableV2";

    private LogWrites() {}

    /**
     * Returns the name of the table that a command writes to, perhaps without catalog and database; null unless a log lists the
     * table's files.
     */
    static TableIdentifier table(LogicalPlan command) {
        if (command instanceof V2WriteCommand write) {
            return write.table() instanceof DataSourceV2Relation relation && relation.identifier().isDefined()
                    ? name(relation.catalog(), relation.identifier().get()) : null;
        }
        if (!command.getClass().getName().startsWith(OF_DELTA)) return null;
        for (int position = 0; position < command.productArity(); position++) {
            TableIdentifier table = ofDelta(command.productElement(position));
            if (table != null) return table;
        }
        return null;
    }

    private static TableIdentifier name(Option<CatalogPlugin> catalog, Identifier name) {
        if (catalog.isEmpty() || name.namespace().length != 1) return null;
        return new TableIdentifier(name.name(), Option.apply(name.namespace()[0]), Option.apply(catalog.get().name()));
    }

    /** Returns the table in a field of a Delta command; null if the field is not a table. */
    private static TableIdentifier ofDelta(Object field) {
        if (field instanceof Option<?> option) return option.isDefined() ? ofDelta(option.get()) : null;
        if (field instanceof CatalogTable table) return table.identifier();
        if (field instanceof ResolvedTable table) return name(Option.apply(table.catalog()), table.identifier());
        if (field == null || !field.getClass().getName().equals(TABLE_OF_DELTA)) return null;
        try {
            return ofDelta(field.getClass().getMethod("catalogTable").invoke(field));
        } catch (ReflectiveOperationException e) {
            return null;
        }
    }
}
