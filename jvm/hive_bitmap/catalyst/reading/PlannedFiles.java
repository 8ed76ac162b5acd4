package hive_bitmap.catalyst.reading;

import com.google.common.collect.MapMaker;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
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
 * The files of a partitioned table as they were listed to plan a query, unless the application may have written them since: then
 * they are listed anew, as Spark itself lists the files of such a table when it reads them, and not before.
 */
public final class PlannedFiles extends FilesOf {
    /** By a session's index of a table, which remembers files whatever is written to their path: when plans began to list them. */
    private static final Map<CatalogFileIndex, Listed> LISTED = new MapMaker().weakKeys().makeMap(); // by identity

    private final SparkSession session;
    private final CatalogFileIndex location;
    /** What the session had cached of the table before the files were listed; each write of the session drops that. */
    private final LogicalPlan known;
    /** The number of the last write before that. */
    private final long written;

    private PlannedFiles(FileIndex listed, SparkSession session, CatalogFileIndex location, LogicalPlan known, long written) {
        super(listed);
        this.session = session;
        this.location = location;
        this.known = known;
        this.written = written;
    }

    /** Lists the files of a table under filters over partition columns. */
    static PlannedFiles of(SparkSession session, CatalogFileIndex location, List<Expression> partitionFilters) {
        LogicalPlan known = cached(session, location.table());
        Seq<Expression> filters = Scala.seq(partitionFilters);
        Listed before = LISTED.computeIfAbsent(location, one -> new Listed(null, WrittenFolders.last()));
        CatalogFileIndex index = before.index == null ? location : before.index;
        long written = WrittenFolders.last();
        PlannedFiles listed = new PlannedFiles(index.filterPartitions(filters), session, location, known, written);
        if (!WrittenFolders.areWritten(listed::folders, before.written, true)) return listed;
        index = anew(session, location);
        LISTED.put(location, new Listed(index, written));
        return new PlannedFiles(index.filterPartitions(filters), session, location, known, written);
    }

    /**
     * By which index files were listed last in place of a session's own (null: by that), and the number of the last write before it
     * first listed any.
     */
    private record Listed(CatalogFileIndex index, long written) {}

    /** The folder of the table, and those of the partitions that were listed, which may be elsewhere. */
    private List<Path> folders() {
        List<Path> folders = new ArrayList<>(Scala.list(location.rootPaths()));
        folders.addAll(Scala.list(all.rootPaths()));
        return folders;
    }

    /** Returns another index of the files, as no write tells one to forget them. */
    static CatalogFileIndex anew(SparkSession session, CatalogFileIndex location) {
        return new CatalogFileIndex(session, location.table(), location.sizeInBytes());
    }

    private static LogicalPlan cached(SparkSession session, CatalogTable table) {
        QualifiedTableName name = new QualifiedTableName(table.database(), table.identifier().table());
        return ((org.apache.spark.sql.classic.SparkSession) session).sessionState().catalog().getCachedTable(name);
    }

    /** Whether the table may have been written since its files were listed. That costs no call of the metastore. */
    boolean mayBeOutdated() {
        return known == null || known != cached(session, location.table()) || WrittenFolders.areWritten(this::folders, written, false);
    }

    /** Returns an index of the files that Spark would read now. */
    private FileIndex current() {
        return mayBeOutdated() ? anew(session, location) : all;
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
