package hive_bitmap.catalyst.lake;

/** How what a log says of its table comes to Python. */
final class LakeFacts {
    /** The property of a table's description that has the facts of its log (hive_bitmap/spark/metastore/lake_tables.py). */
    static final String PROPERTY = "hive_bitmap.facts_of_log";

    private LakeFacts() {}
}
