package hive_bitmap.catalyst.reading;

import hive_bitmap.catalyst.spark.Scala;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.datasources.CatalogFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.NoopCache$;
import scala.Option;

/**
 * Gives the current state of a table and of its files. A session caches the relation of a table, with a listing of its files, until
 * it writes to the table itself, so it does not see later writes of others.
 */
public final class CurrentFiles {
    private CurrentFiles() {}

    /**
     * Returns the DataFrame of a table with its current definition. If others have altered or recreated the table since the
     * session first read it, the cached relation is invalidated, as by REFRESH TABLE, and the result is a new DataFrame.
     */
    public static Dataset<Row> of(Dataset<Row> table) throws AnalysisException {
        LogicalPlan leaf = Scala.list(table.queryExecution().analyzed().collectLeaves()).get(0);
        if (!(leaf instanceof LogicalRelation relation) || relation.catalogTable().isEmpty()) return table;
        CatalogTable cachedTable = relation.catalogTable().get();
        SessionCatalog catalog = table.sparkSession().sessionState().catalog();
        if (isSame(cachedTable, catalog.getTableMetadata(cachedTable.identifier()))) return table;
        catalog.refreshTable(cachedTable.identifier());
        return (Dataset<Row>) table.sparkSession().table(cachedTable.identifier().quotedString());
    }

    private static boolean isSame(CatalogTable table, CatalogTable other) {
        return table.createTime() == other.createTime()
                && table.provider().equals(other.provider())
                && table.partitionColumnNames().equals(other.partitionColumnNames())
                && table.storage().locationUri().equals(other.storage().locationUri())
                && table.schema().catalogString().equalsIgnoreCase(other.schema().catalogString());
    }

    /** Returns a relation that lists its files again when it is read. Other DataFrames of the table keep their listing. */
    public static LogicalRelation relisted(LogicalRelation relation) {
        if (!(relation.relation() instanceof HadoopFsRelation files)) return relation;
        HadoopFsRelation current = FileRelations.over(files, relisted(files, files.location()));
        return FileRelations.copied(relation, current, relation.catalogTable());
    }

    private static FileIndex relisted(HadoopFsRelation files, FileIndex index) {
        if (index.getClass() == CatalogFileIndex.class) return PlannedFiles.newIndex(files.sparkSession(), (CatalogFileIndex) index);
        if (index.getClass() == InMemoryFileIndex.class && index.partitionSchema().isEmpty()) {
            return new InMemoryFileIndex(
                    files.sparkSession(), index.rootPaths(), files.options(), Option.empty(), NoopCache$.MODULE$,
                    Option.apply(((InMemoryFileIndex) index).partitionSpec()), Option.empty());
        }
        return index;
    }
}
