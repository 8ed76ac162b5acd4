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
 * Which table a command writes whose files a log lists: by Spark's own commands for tables of other sources (INSERT, and what Iceberg
 * makes of DELETE, UPDATE and MERGE), and by the commands of Delta.
 */
final class LogWrites {
    private static final String OF_DELTA = "org.apache.spark.sql.delta.commands.";
    private static final String TABLE_OF_DELTA = "org.apache.spark.sql.delta.catalog.DeltaTableV2";

    private LogWrites() {}

    /** Returns the name of the table, perhaps without catalog and database; null if a command writes none of this kind. */
    static TableIdentifier table(LogicalPlan command) {
        if (command instanceof V2WriteCommand write) {
            return write.table() instanceof DataSourceV2Relation relation && relation.identifier().isDefined()
                    ? name(relation.catalog(), relation.identifier().get()) : null;
        }
        if (!command.getClass().getName().startsWith(OF_DELTA)) return null;
        for (int position = 0; position < command.productArity(); position++) {
            TableIdentifier found = ofDelta(command.productElement(position));
            if (found != null) return found;
        }
        return null;
    }

    private static TableIdentifier name(Option<CatalogPlugin> catalog, Identifier name) {
        if (catalog.isEmpty() || name.namespace().length != 1) return null;
        return new TableIdentifier(name.name(), Option.apply(name.namespace()[0]), Option.apply(catalog.get().name()));
    }

    /** Returns the name of the table that a field of a command of Delta's is; null if it is none. */
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
