package hive_bitmap.catalyst.reading;

import hive_bitmap.catalyst.spark.Scala;
import java.util.HashSet;
import java.util.Set;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

/**
 * The files of a table as they are now. A session keeps the relation of a table, with a listing of its files, until it writes to
 * the table itself; of what others have written since, it sees nothing.
 */
public final class CurrentFiles {
    private CurrentFiles() {}

    /**
     * Has the session list the files of a table anew, and returns its DataFrame. All DataFrames of the table share that listing. The
     * relation of a table that was altered or made anew by others, and written since, fits its files no longer: it is forgotten
     * as a whole.
     */
    public static Dataset<Row> of(Dataset<Row> table) throws AnalysisException {
        LogicalPlan leaf = Scala.list(table.queryExecution().analyzed().collectLeaves()).get(0);
        if (!(leaf instanceof LogicalRelation relation) || !(relation.relation() instanceof HadoopFsRelation files)
                || relation.catalogTable().isEmpty()) return table;
        if (files.location() instanceof InMemoryFileIndex listed) {
            Set<WrittenFile> before = files(listed);
            listed.refresh();
            if (files(listed).equals(before)) return table;
        }
        CatalogTable known = relation.catalogTable().get();
        SessionCatalog catalog = table.sparkSession().sessionState().catalog();
        if (isSame(known, catalog.getTableMetadata(known.identifier()))) {
            files.location().refresh();
            return table;
        }
        catalog.refreshTable(known.identifier());
        return (Dataset<Row>) table.sparkSession().table(known.identifier().quotedString());
    }

    private record WrittenFile(Path path, long bytes, long time) {}

    private static Set<WrittenFile> files(InMemoryFileIndex listed) {
        Set<WrittenFile> files = new HashSet<>();
        for (FileStatus one : Scala.list(listed.allFiles())) {
            files.add(new WrittenFile(one.getPath(), one.getLen(), one.getModificationTime()));
        }
        return files;
    }

    private static boolean isSame(CatalogTable one, CatalogTable other) {
        return one.createTime() == other.createTime()
                && one.storage().locationUri().equals(other.storage().locationUri())
                && one.schema().catalogString().equalsIgnoreCase(other.schema().catalogString());
    }
}
