package hive_bitmap.catalyst.lake;

import hive_bitmap.catalyst.reading.Narrowing;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportPartitioning;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.connector.read.partitioning.Partitioning;
import org.apache.spark.sql.types.StructType;

/**
 * An Iceberg scan with some of the tasks. Spark reads once for scans that are equal. Iceberg's own scans are equal if their filters
 * are, but two scans of this class only if they also read the same parts of the same files.
 */
public final class IcebergScan implements Scan, SupportsReportPartitioning, SupportsReportStatistics, SupportsRuntimeV2Filtering {
    private final Scan inner;
    private final Object choice;
    private final Narrowing narrowing;

    /**
     * Wraps a scan. {@code choice} tells it apart from scans of other parts of the same files. {@code narrowing} is null if no
     * index narrows the scan.
     */
    IcebergScan(Scan inner, Object choice, Narrowing narrowing) {
        this.inner = inner;
        this.choice = choice;
        this.narrowing = narrowing;
    }

    /** Returns the figures to show for the scan; null if no index narrows it. */
    public Narrowing narrowing() {
        return narrowing;
    }

    @Override
    public StructType readSchema() {
        return inner.readSchema();
    }

    @Override
    public String description() {
        return inner.description() + (narrowing == null ? "" : " [" + narrowing.label() + "]");
    }

    @Override
    public Batch toBatch() {
        return new NarrowedBatch(inner.toBatch(), choice);
    }

    @Override
    public ColumnarSupportMode columnarSupportMode() {
        return inner.columnarSupportMode();
    }

    @Override
    public CustomMetric[] supportedCustomMetrics() {
        return inner.supportedCustomMetrics();
    }

    @Override
    public CustomTaskMetric[] reportDriverMetrics() {
        return inner.reportDriverMetrics();
    }

    @Override
    public Partitioning outputPartitioning() {
        return ((SupportsReportPartitioning) inner).outputPartitioning();
    }

    @Override
    public Statistics estimateStatistics() {
        return ((SupportsReportStatistics) inner).estimateStatistics();
    }

    @Override
    public NamedReference[] filterAttributes() {
        return ((SupportsRuntimeV2Filtering) inner).filterAttributes();
    }

    @Override
    public void filter(Predicate[] predicates) {
        ((SupportsRuntimeV2Filtering) inner).filter(predicates);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof IcebergScan scan && inner.equals(scan.inner) && choice.equals(scan.choice);
    }

    @Override
    public int hashCode() {
        return inner.hashCode() * 31 + choice.hashCode();
    }

    @Override
    public String toString() {
        return description();
    }

    private record NarrowedBatch(Batch inner, Object choice) implements Batch {
        @Override
        public InputPartition[] planInputPartitions() {
            return inner.planInputPartitions();
        }

        @Override
        public PartitionReaderFactory createReaderFactory() {
            return inner.createReaderFactory();
        }
    }
}
