package hive_bitmap.catalyst.queries;

import org.apache.spark.sql.internal.SQLConf;

/**
 * What a session says of indexes, read where a plan is made; where it says nothing, what Spark was started with says it
 * behind {@code spark.}, without which Spark drops a setting.
 */
public record Settings(boolean enabled, boolean strict, double planningSeconds) {
    static final String ENABLED = "hive_bitmap.enabled";
    static final String STRICT = "hive_bitmap.strict";
    static final String PLANNING_SECONDS = "hive_bitmap.planning_seconds";

    public static Settings of(SQLConf conf) {
        return new Settings(
                flag(conf, ENABLED, true), flag(conf, STRICT, false), seconds(said(conf, PLANNING_SECONDS, "1")));
    }

    private static boolean flag(SQLConf conf, String name, boolean otherwise) {
        return "true".equalsIgnoreCase(said(conf, name, Boolean.toString(otherwise)).trim());
    }

    private static String said(SQLConf conf, String name, String otherwise) {
        return conf.getConfString(name, conf.getConfString("spark." + name, otherwise));
    }

    private static double seconds(String said) {
        try {
            return Double.parseDouble(said.trim());
        } catch (NumberFormatException e) {
            return 1;
        }
    }
}
