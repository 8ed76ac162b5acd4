package hive_bitmap.catalyst.python;

import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.internal.SQLConf;

/**
 * The settings of a session when a plan is made. A setting that the session lacks is read with the prefix {@code spark.}: users add
 * the prefix to settings at startup, because Spark ignores names without it.
 */
public record Settings(boolean enabled, boolean strict, boolean learnPrices, double planningSeconds, long answerBytes) {
    public static final String ENABLED = "hive_bitmap.enabled";
    private static final String LEARN_PRICES = "hive_bitmap.learn_prices";
    static final String STRICT = "hive_bitmap.strict";
    static final String PLANNING_SECONDS = "hive_bitmap.planning_seconds";

    public static final String AUTO_REFRESH = "hive_bitmap.auto_refresh";
    private static final String ANSWER_BYTES = "hive_bitmap.answer_bytes";
    private static final String MESSAGE_MEGABYTES = "spark.rpc.message.maxSize";
    private static final int RESULT_SHARE = 4;
    private static final double TIMES_PLANNING = 60;

    public static Settings of(SQLConf conf) {
        return new Settings(
                flag(conf, ENABLED), flag(conf, STRICT), flag(conf, LEARN_PRICES), seconds(value(conf, PLANNING_SECONDS)),
                answerBytes(conf));
    }

    /** Returns whether indexes are refreshed after writes of a session. */
    public static boolean autoRefresh(SparkSession session) {
        SQLConf conf = ((org.apache.spark.sql.classic.SparkSession) session).sessionState().conf();
        return flag(conf, ENABLED) && flag(conf, AUTO_REFRESH);
    }

    /**
     * Returns the timeout in seconds for Python's work when a query is executed. It is many times as long as that of planning,
     * because it only keeps a hanging process from blocking the query for ever. There is no timeout (infinity) if the session is
     * strict or the caller {@code waits}.
     */
    public double executionSeconds(boolean waits) {
        return strict || waits ? Double.POSITIVE_INFINITY : TIMES_PLANNING * planningSeconds;
    }

    /** Returns the limit in bytes of the rows of an answer. It is higher than the limit of the keys, because rows may be wider. */
    public long resultBytes() {
        return RESULT_SHARE * answerBytes;
    }

    /**
     * Returns the limit in bytes of the keys of an answer. As in hive_bitmap/core/planning/settings.py, keys and rows together fit
     * into one message of Spark to a task.
     */
    private static long answerBytes(SQLConf conf) {
        long message = JavaUtils.byteStringAsMb(conf.getConfString(MESSAGE_MEGABYTES, "128") + "m") << 20;
        try {
            return Math.min(JavaUtils.byteStringAsBytes(value(conf, ANSWER_BYTES).trim()), message / (2 * RESULT_SHARE));
        } catch (IllegalArgumentException e) {
            return 0; // Python reports what is wrong with the value
        }
    }

    private static boolean flag(SQLConf conf, String name) {
        return "true".equalsIgnoreCase(value(conf, name).trim());
    }

    private static String value(SQLConf conf, String name) {
        if (conf.contains(name)) return conf.getConfString(name);
        return conf.contains("spark." + name) ? conf.getConfString("spark." + name) : SettingEntries.byDefault(name);
    }

    private static double seconds(String value) {
        try {
            return Double.parseDouble(value.trim());
        } catch (NumberFormatException e) {
            return Double.parseDouble(SettingEntries.byDefault(PLANNING_SECONDS));
        }
    }
}
