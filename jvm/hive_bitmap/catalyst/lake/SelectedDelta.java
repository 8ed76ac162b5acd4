package hive_bitmap.catalyst.lake;

import hive_bitmap.catalyst.reading.Narrowing;
import hive_bitmap.catalyst.reading.SelectedReader;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.Job;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/** Delta's own reader of its Parquet files, restricted to the selected row groups of {@link SelectedDeltaFiles}. */
final class SelectedDelta extends ParquetFileFormat {
    private final ParquetFileFormat inner;
    private final Narrowing narrowing;

    SelectedDelta(ParquetFileFormat inner, Narrowing narrowing) {
        this.inner = inner;
        this.narrowing = narrowing;
    }

    @Override
    public Function1<PartitionedFile, Iterator<InternalRow>> buildReaderWithPartitionValues(
            SparkSession session, StructType data, StructType partition, StructType required, Seq<Filter> filters,
            Map<String, String> options, Configuration conf) {
        return SelectedReader.over(
                inner.buildReaderWithPartitionValues(session, data, partition, required, filters, options, conf), session, conf);
    }

    @Override
    public Option<StructType> inferSchema(SparkSession session, Map<String, String> options, Seq<FileStatus> files) {
        return inner.inferSchema(session, options, files);
    }

    @Override
    public OutputWriterFactory prepareWrite(SparkSession session, Job job, Map<String, String> options, StructType schema) {
        return inner.prepareWrite(session, job, options, schema);
    }

    @Override
    public boolean supportBatch(SparkSession session, StructType schema) {
        return inner.supportBatch(session, schema);
    }

    @Override
    public Option<Seq<String>> vectorTypes(StructType required, StructType partition, org.apache.spark.sql.internal.SQLConf conf) {
        return inner.vectorTypes(required, partition, conf);
    }

    @Override
    public boolean isSplitable(SparkSession session, Map<String, String> options, Path path) {
        return inner.isSplitable(session, options, path);
    }

    @Override
    public boolean supportDataType(DataType type) {
        return inner.supportDataType(type);
    }

    @Override
    public boolean supportFieldName(String name) {
        return inner.supportFieldName(name);
    }

    @Override
    public Seq<StructField> metadataSchemaFields() {
        return inner.metadataSchemaFields();
    }

    @Override
    public Map<String, Function1<PartitionedFile, Object>> fileConstantMetadataExtractors() {
        return inner.fileConstantMetadataExtractors();
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof SelectedDelta delta && inner.equals(delta.inner);
    }

    @Override
    public int hashCode() {
        return inner.hashCode();
    }

    @Override
    public String toString() {
        return inner + ", " + narrowing.label();
    }
}
