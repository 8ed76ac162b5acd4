package hive_bitmap.catalyst.reading;

import hive_bitmap.catalyst.spark.Scala;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.QualifiedTableName;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.CatalogFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import scala.collection.immutable.Seq;

/**
 * The files of a partitioned table as they were listed to plan a query, unless the session may have written the table since:
 * then they are listed anew, as Spark itself lists the files of such a table when it reads them, and not before.
 */
public final class PlannedFiles extends FilesOf {
    private final SparkSession session;
    private final CatalogFileIndex location;
    /** What the session had cached of the table before the files were listed; each write of the session drops that. */
    private final LogicalPlan known;

    private PlannedFiles(FileIndex listed, SparkSession session, CatalogFileIndex location, LogicalPlan known) {
        super(listed);
        this.session = session;
        this.location = location;
        this.known = known;
    }

    /** Lists the files of a table under filters over partition columns. */
    static PlannedFiles of(SparkSession session, CatalogFileIndex location, List<Expression> partitionFilters) {
        LogicalPlan known = cached(session, location.table());
        return new PlannedFiles(location.filterPartitions(Scala.seq(partitionFilters)), session, location, known);
    }

    private static LogicalPlan cached(SparkSession session, CatalogTable table) {
        QualifiedTableName name = new QualifiedTableName(table.database(), table.identifier().table());
        return ((org.apache.spark.sql.classic.SparkSession) session).sessionState().catalog().getCachedTable(name);
    }

    /** Whether the session may have written the table since its files were listed. That costs no call of the metastore. */
    boolean mayBeOutdated() {
        return known == null || known != cached(session, location.table());
    }

    /** Returns an index of the files that Spark would read now; a new one, as no write tells others to forget files. */
    private FileIndex current() {
        return mayBeOutdated() ? new CatalogFileIndex(session, location.table(), location.sizeInBytes()) : all;
    }

    @Override
    public Seq<PartitionDirectory> listFiles(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
        return current().listFiles(partitionFilters, dataFilters);
    }

    @Override
    public String[] inputFiles() {
        return current().inputFiles();
    }

    @Override
    public long sizeInBytes() {
        return all.sizeInBytes();
    }

    /** As Spark compares listings, so that it can reuse exchanges. */
    @Override
    public boolean equals(Object other) {
        return other instanceof PlannedFiles files && all.equals(files.all);
    }

    @Override
    public int hashCode() {
        return all.hashCode();
    }
}
