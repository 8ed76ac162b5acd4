package hive_bitmap.catalyst;

import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.classic.Dataset;

/** What Python is asked when an answer from the index is executed. */
public final class Counting {
    private final SparkSession session;
    private final Scan scan;
    private final String number;

    Counting(SparkSession session, Scan scan, String number) {
        this.session = session;
        this.scan = scan;
        this.number = number;
    }

    public String kind() {
        return "count";
    }

    /** By which Python knows what is to be counted. */
    public String number() {
        return number;
    }

    /** As {@link Question#satisfying}. */
    public Dataset<Row> satisfying(int only, int expression, Dataset<Row> keys) {
        return Question.satisfying(session, scan, expression, keys);
    }
}
