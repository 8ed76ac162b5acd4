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
 * A table, and its files, as they are now. A session keeps the relation of a table, with a listing of its files, until it writes to
 * the table itself; of what others have done since, it sees nothing.
 */
public final class CurrentFiles {
    private CurrentFiles() {}

    /**
     * Returns the DataFrame of a table, or a new one if others have altered the table, or made it anew, since the session first
     * read it: its relation is forgotten then, as by REFRESH TABLE.
     */
    public static Dataset<Row> of(Dataset<Row> table) throws AnalysisException {
        LogicalPlan leaf = Scala.list(table.queryExecution().analyzed().collectLeaves()).get(0);
        if (!(leaf instanceof LogicalRelation relation) || relation.catalogTable().isEmpty()) return table;
        CatalogTable known = relation.catalogTable().get();
        SessionCatalog catalog = table.sparkSession().sessionState().catalog();
        if (isSame(known, catalog.getTableMetadata(known.identifier()))) return table;
        catalog.refreshTable(known.identifier());
        return (Dataset<Row>) table.sparkSession().table(known.identifier().quotedString());
    }

    private static boolean isSame(CatalogTable one, CatalogTable other) {
        return one.createTime() == other.createTime()
                && one.provider().equals(other.provider())
                && one.partitionColumnNames().equals(other.partitionColumnNames())
                && one.storage().locationUri().equals(other.storage().locationUri())
                && one.schema().catalogString().equalsIgnoreCase(other.schema().catalogString());
    }

    /** Returns a relation that lists its files anew when it is read. Other DataFrames of the table keep their listing. */
    public static LogicalRelation relisted(LogicalRelation relation) {
        if (!(relation.relation() instanceof HadoopFsRelation files)) return relation;
        HadoopFsRelation current = FileRelations.over(files, relisted(files, files.location()));
        return FileRelations.copied(relation, current, relation.catalogTable());
    }

    private static FileIndex relisted(HadoopFsRelation files, FileIndex index) {
        if (index.getClass() == CatalogFileIndex.class) return PlannedFiles.anew(files.sparkSession(), (CatalogFileIndex) index);
        if (index.getClass() == InMemoryFileIndex.class && index.partitionSchema().isEmpty()) {
            return new InMemoryFileIndex(
                    files.sparkSession(), index.rootPaths(), files.options(), Option.empty(), NoopCache$.MODULE$,
                    Option.apply(((InMemoryFileIndex) index).partitionSpec()), Option.empty());
        }
        return index;
    }
}
