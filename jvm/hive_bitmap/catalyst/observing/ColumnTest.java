package hive_bitmap.catalyst.observing;

import com.fasterxml.jackson.databind.node.ArrayNode;

/**
 * A query's test of a column, without the values that it compares with.
 *
 * @param column the name of the column in lower case
 * @param kind the kind of the test; kinds that usually match more keys come later in the enum
 * @param values roughly the number of values that the column is compared with, rounded to a power of two to keep the number of
 *     different tests small; 0 if they are not counted
 */
record ColumnTest(String column, Kind kind, int values) {
    /** The kinds of tests. Their words are those of hive_bitmap/spark/advising/observed.py. */
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

    /** Returns whether this test usually matches fewer keys than another test of the same column. */
    boolean isStricterThan(ColumnTest other) {
        int order = kind.compareTo(other.kind);
        return order < 0 || order == 0 && values < other.values;
    }

    void writeTo(ArrayNode tests) {
        tests.addArray().add(column).add(kind.word()).add(values);
    }
}
