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
 * The files of a partitioned table that were listed to plan a query. If the application may have written to the table since, they
 * are listed again when they are read, as Spark itself lists them only then.
 */
public final class PlannedFiles extends FilesOf {
    /**
     * The listings of plans, by the session's index of a table, which keeps its files even if something is written to the folders
     * by path.
     */
    private static final Map<CatalogFileIndex, Listed> LISTED = new MapMaker().weakKeys().makeMap(); // by identity

    private final SparkSession session;
    private final CatalogFileIndex location;
    /** The relation that the session had cached when the files were listed. Each write of the session drops it from the cache. */
    private final LogicalPlan cachedRelation;
    /** The number of the last write that had begun when the files were listed ({@link WrittenFolders#last}). */
    private final long lastWrite;

    private PlannedFiles(FileIndex listed, SparkSession session, CatalogFileIndex location, LogicalPlan cachedRelation, long lastWrite) {
        super(listed);
        this.session = session;
        this.location = location;
        this.cachedRelation = cachedRelation;
        this.lastWrite = lastWrite;
    }

    /** Lists the files of a table under filters over partition columns. */
    static PlannedFiles of(SparkSession session, CatalogFileIndex location, List<Expression> partitionFilters) {
        LogicalPlan cachedRelation = cached(session, location.table());
        Seq<Expression> filters = Scala.seq(partitionFilters);
        Listed former = LISTED.computeIfAbsent(location, absent -> new Listed(null, WrittenFolders.last()));
        CatalogFileIndex index = former.index == null ? location : former.index;
        long lastWrite = WrittenFolders.last();
        PlannedFiles listed = new PlannedFiles(index.filterPartitions(filters), session, location, cachedRelation, lastWrite);
        if (!WrittenFolders.areWritten(listed::folders, former.lastWrite, true)) return listed;
        index = newIndex(session, location);
        LISTED.put(location, new Listed(index, lastWrite));
        return new PlannedFiles(index.filterPartitions(filters), session, location, cachedRelation, lastWrite);
    }

    /**
     * The index by which plans list the files of a table.
     *
     * @param index the index that replaces the session's own; null if the session's own is used
     * @param lastWrite the number of the last write before the index first listed files
     */
    private record Listed(CatalogFileIndex index, long lastWrite) {}

    /** Returns the folder of the table, and those of the listed partitions, which may be elsewhere. */
    private List<Path> folders() {
        List<Path> folders = new ArrayList<>(Scala.list(location.rootPaths()));
        folders.addAll(Scala.list(all.rootPaths()));
        return folders;
    }

    /** Returns a new index of a table. An existing index keeps its listings, whatever is written. */
    static CatalogFileIndex newIndex(SparkSession session, CatalogFileIndex location) {
        return new CatalogFileIndex(session, location.table(), location.sizeInBytes());
    }

    /** Returns a session's cached relation of a table; null if there is none. */
    private static LogicalPlan cached(SparkSession session, CatalogTable table) {
        QualifiedTableName name = new QualifiedTableName(table.database(), table.identifier().table());
        return ((org.apache.spark.sql.classic.SparkSession) session).sessionState().catalog().getCachedTable(name);
    }

    /** Returns whether the table may have been written to since its files were listed; without a call to the metastore. */
    boolean mayBeOutdated() {
        return cachedRelation == null || cachedRelation != cached(session, location.table()) || WrittenFolders.areWritten(this::folders, lastWrite, false);
    }

    /** Returns an index of the files that Spark would now read. */
    private FileIndex current() {
        return mayBeOutdated() ? newIndex(session, location) : all;
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

    /** Compares listings as Spark does, so that it can reuse exchanges. */
    @Override
    public boolean equals(Object other) {
        return other instanceof PlannedFiles files && all.equals(files.all);
    }

    @Override
    public int hashCode() {
        return all.hashCode();
    }
}
