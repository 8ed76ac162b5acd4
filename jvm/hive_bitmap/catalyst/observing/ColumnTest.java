package hive_bitmap.catalyst.observing;

import com.fasterxml.jackson.databind.node.ArrayNode;

/**
 * How a query tests a column, without the values that it compares with.
 *
 * @param column its name in lower case
 * @param kind the more keys usually satisfy a test, the later its kind stands
 * @param values about how many values the column is compared with: a power of two, so that there are few different tests; 0 if
 *     they are not counted
 */
record ColumnTest(String column, Kind kind, int values) {
    /** The words are those of hive_bitmap/spark/advising/observed.py. */
    enum Kind {
        EQUALITY, IN, NULL, RANGE, OTHER;

        String word() {
            return name().toLowerCase(java.util.Locale.ROOT);
        }
    }

    static ColumnTest in(String column, int values) {
        if (values <= 1) return new ColumnTest(column, Kind.EQUALITY, 1);
        return new ColumnTest(column, Kind.IN, Integer.highestOneBit(Math.min(values, 1 << 20) - 1) << 1);
    }

    static ColumnTest of(String column, Kind kind) {
        return new ColumnTest(column, kind, 0);
    }

    /** Whether fewer keys usually satisfy this test than another one of the same column. */
    boolean isStricterThan(ColumnTest other) {
        int order = kind.compareTo(other.kind);
        return order < 0 || order == 0 && values < other.values;
    }

    void writeTo(ArrayNode tests) {
        tests.addArray().add(column).add(kind.word()).add(values);
    }
}
