package hive_bitmap.catalyst.reading;

import org.apache.spark.SparkContext;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;

/** Computes the size of splits, as Spark does. */
public final class SplitSize {
    private SplitSize() {}

    /** Returns the maximum size of a split. {@code total} is the size of all splits, with the costs of opening files. */
    public static long most(SparkContext context, long total) {
        SQLConf conf = SQLConf.get();
        Option<Object> least = conf.filesMinPartitionNum();
        long partitions = least.isEmpty() ? parallelism(context) : (Integer) least.get();
        return Math.min(conf.filesMaxPartitionBytes(), Math.max(conf.filesOpenCostInBytes(), total / Math.max(partitions, 1)));
    }

    /** Returns the number of concurrent tasks that Spark assumes when it plans a scan. */
    public static int parallelism(SparkContext context) {
        String parallelism = Integer.toString(context.defaultParallelism());
        return Integer.parseInt(SQLConf.get().getConfString("spark.sql.leafNodeDefaultParallelism", parallelism));
    }
}
