package hive_bitmap.catalyst.spark;

/** Spark's own names, whose constants lie in a class in some of its versions and in an interface in others. */
public final class Names {
    /** The catalog that every session has. */
    public static final String SESSION_CATALOG = "spark_catalog";

    private Names() {}
}
