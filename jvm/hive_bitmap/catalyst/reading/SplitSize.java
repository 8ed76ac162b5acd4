package hive_bitmap.catalyst.reading;

import org.apache.spark.SparkContext;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;

/** The size of the parts that files are read in. */
public final class SplitSize {
    private SplitSize() {}

    /** Returns how large a split is at most where splits have this many bytes in all, with the costs of opening files. */
    public static long most(SparkContext context, long total) {
        SQLConf conf = SQLConf.get();
        Option<Object> least = conf.filesMinPartitionNum();
        long partitions = least.isEmpty() ? parallelism(context) : (Integer) least.get();
        return Math.min(conf.filesMaxPartitionBytes(), Math.max(conf.filesOpenCostInBytes(), total / Math.max(partitions, 1)));
    }

    /** Returns how many tasks run at once, as Spark assumes when it plans a scan. */
    public static int parallelism(SparkContext context) {
        String known = Integer.toString(context.defaultParallelism());
        return Integer.parseInt(SQLConf.get().getConfString("spark.sql.leafNodeDefaultParallelism", known));
    }
}
