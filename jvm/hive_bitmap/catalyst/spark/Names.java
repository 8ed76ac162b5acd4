package hive_bitmap.catalyst.spark;

/** Names in Spark whose constants are in a class in some versions of Spark, and in an interface in others. */
public final class Names {
    /** The catalog that every session has. */
    public static final String SESSION_CATALOG = "spark_catalog";

    private Names() {}
}
