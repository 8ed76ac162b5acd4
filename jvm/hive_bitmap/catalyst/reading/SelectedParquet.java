package hive_bitmap.catalyst.reading;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/** Spark's own Parquet reader, restricted to the selected row groups of {@link SelectedFiles}. */
public final class SelectedParquet extends ParquetFileFormat {
    private final Narrowing narrowing;

    public SelectedParquet(Narrowing narrowing) {
        this.narrowing = narrowing;
    }

    @Override
    public Function1<PartitionedFile, Iterator<InternalRow>> buildReaderWithPartitionValues(
            SparkSession session, StructType data, StructType partition, StructType required, Seq<Filter> filters,
            Map<String, String> options, Configuration conf) {
        return SelectedReader.over(
                super.buildReaderWithPartitionValues(session, data, partition, required, filters, options, conf), session, conf);
    }

    public Narrowing narrowing() {
        return narrowing;
    }

    @Override
    public String toString() {
        return "Parquet, " + narrowing.label();
    }
}
