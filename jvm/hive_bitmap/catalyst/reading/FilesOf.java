package hive_bitmap.catalyst.reading;

import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * A file index over some of the files of another one. All other properties, such as the partition schema, are those of the other
 * one.
 */
public abstract class FilesOf implements FileIndex {
    protected final FileIndex all;

    protected FilesOf(FileIndex all) {
        this.all = all;
    }

    @Override
    public Seq<Path> rootPaths() {
        return all.rootPaths();
    }

    @Override
    public String[] inputFiles() {
        return all.inputFiles();
    }

    @Override
    public void refresh() {
        all.refresh();
    }

    @Override
    public StructType partitionSchema() {
        return all.partitionSchema();
    }

    @Override
    public Option<Object> metadataOpsTimeNs() {
        return all.metadataOpsTimeNs();
    }
}
