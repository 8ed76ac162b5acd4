package hive_bitmap.catalyst.python;

import org.apache.spark.sql.internal.SQLConf;

/**
 * The settings that a session has when a plan is made. A setting that the session does not have is read with the prefix
 * {@code spark.}, for Spark ignores other names in the configuration that it is started with.
 */
public record Settings(boolean enabled, boolean strict, double planningSeconds) {
    static final String ENABLED = "hive_bitmap.enabled";
    static final String STRICT = "hive_bitmap.strict";
    static final String PLANNING_SECONDS = "hive_bitmap.planning_seconds";

    public static Settings of(SQLConf conf) {
        return new Settings(
                flag(conf, ENABLED, true), flag(conf, STRICT, false), seconds(value(conf, PLANNING_SECONDS, "1")));
    }

    private static boolean flag(SQLConf conf, String name, boolean byDefault) {
        return "true".equalsIgnoreCase(value(conf, name, Boolean.toString(byDefault)).trim());
    }

    private static String value(SQLConf conf, String name, String byDefault) {
        return conf.getConfString(name, conf.getConfString("spark." + name, byDefault));
    }

    private static double seconds(String value) {
        try {
            return Double.parseDouble(value.trim());
        } catch (NumberFormatException e) {
            return 1;
        }
    }
}
