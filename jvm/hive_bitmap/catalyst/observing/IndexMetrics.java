package hive_bitmap.catalyst.observing;

import com.codahale.metrics.Counter;
import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;
import org.apache.spark.metrics.source.Source;

/**
 * The counters of an application in Spark's metrics system. The guide's page on advice and metrics has their names and units.
 */
final class IndexMetrics implements Source {
    private static final String NAME = "hive_bitmap";

    private final MetricRegistry registry = new MetricRegistry();
    private final Counter narrowed = registry.counter("scans.narrowed");
    private final Counter answered = registry.counter("scans.answered");
    private final Counter bytesSaved = registry.counter("bytes.saved");
    private final Counter refreshes = registry.counter("refreshes");
    private final Counter failedRefreshes = registry.counter("refreshes.failed");
    private volatile double lag;

    IndexMetrics() {
        registry.register("refreshes.lagSeconds", (Gauge<Double>) () -> lag);
    }

    @Override
    public String sourceName() {
        return NAME;
    }

    @Override
    public MetricRegistry metricRegistry() {
        return registry;
    }

    void narrowed(long bytes) {
        narrowed.inc();
        bytesSaved.inc(bytes);
    }

    void answered(long bytes) {
        answered.inc();
        bytesSaved.inc(bytes);
    }

    /** Counts a scan that was left alone, by the code of the reason (hive_bitmap/core/planning/strategy.py). */
    void leftAlone(String reason) {
        registry.counter("scans.leftAlone." + reason).inc();
    }

    void refreshed(boolean failed) {
        refreshes.inc();
        if (failed) failedRefreshes.inc();
    }

    void lag(double seconds) {
        lag = seconds;
    }
}
