package hive_bitmap.catalyst.lake;

/** Sends the facts in a table's log to Python, in the description of the table. */
final class LakeFacts {
    /** The property of a table's description with the facts of its log (hive_bitmap/spark/metastore/lake_tables.py). */
    static final String PROPERTY = "hive_bitmap.facts_of_log";

    private LakeFacts() {}
}
