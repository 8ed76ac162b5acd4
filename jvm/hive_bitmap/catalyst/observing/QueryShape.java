package hive_bitmap.catalyst.observing;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;
import java.util.List;

/**
 * The shape of queries of a table: what they test and count, without values.
 *
 * @param database the database of the table
 * @param table the name of the table
 * @param tests the tests of columns
 * @param keySets the sets of columns to count rows by, which answers the aggregation over the scan; null if there is no
 *     aggregation, or counts do not answer it
 * @param sums the sums that answer the aggregation, an object of JSON as in a question; null if sums do not answer it
 * @param expressions the expressions that could be keys in place of columns
 */
record QueryShape(String database, String table, List<ColumnTest> tests, List<List<String>> keySets, String sums, List<KeyTest> expressions) {
    private static final int OBJECT_BYTES = 100;

    /** Returns roughly the bytes that the shape takes in memory. */
    int bytes() {
        int characters = database.length() + table.length() + (sums == null ? 0 : sums.length());
        for (ColumnTest test : tests) characters += test.column().length() + OBJECT_BYTES;
        for (List<String> keys : keySets == null ? List.<List<String>>of() : keySets) {
            for (String key : keys) characters += key.length() + OBJECT_BYTES;
        }
        for (KeyTest key : expressions) characters += key.column().length() + 2 * key.sql().length() + 2 * OBJECT_BYTES;
        return 2 * characters + OBJECT_BYTES;
    }

    void writeTo(ObjectNode line) {
        line.put("database", database).put("table", table);
        ArrayNode all = line.putArray("tests");
        for (ColumnTest test : tests) test.writeTo(all);
        if (sums != null) line.putRawValue("sums", new RawValue(sums));
        if (!expressions.isEmpty()) {
            ArrayNode keys = line.putArray("expressions");
            for (KeyTest key : expressions) key.writeTo(keys);
        }
        if (keySets == null) return;
        ArrayNode sets = line.putArray("key_sets");
        for (List<String> keys : keySets) {
            ArrayNode set = sets.addArray();
            for (String key : keys) set.add(key);
        }
    }
}
