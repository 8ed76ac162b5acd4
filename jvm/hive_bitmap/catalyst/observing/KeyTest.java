package hive_bitmap.catalyst.observing;

import com.fasterxml.jackson.databind.node.ArrayNode;
import hive_bitmap.catalyst.keys.KeyExpressions;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

/**
 * A query's use of an expression that could be a key. The query uses the column of the expression in no other way.
 *
 * @param column the name of the column in lower case
 * @param sql the expression
 * @param test the test of the expression; of the kind OTHER if the query only groups or counts by it
 */
record KeyTest(String column, String sql, ColumnTest test) {
    /** Returns the use of a key, and adds the kept values that it is compared with to {@code samples}. */
    static KeyTest of(KeyExpressions.Key key, ColumnTests tested, Map<String, Set<String>> samples) {
        String sql = key.column().name();
        String name = sql.toLowerCase(Locale.ROOT);
        ColumnTest test = tested.tests().stream().filter(each -> each.column().equals(name)).findFirst()
                .orElse(ColumnTest.of(name, ColumnTest.Kind.OTHER));
        if (tested.samples().containsKey(name)) samples.put(sql, tested.samples().get(name));
        return new KeyTest(key.tested().name().toLowerCase(Locale.ROOT), sql, test);
    }

    void writeTo(ArrayNode expressions) {
        expressions.addArray().add(column).add(sql).add(test.kind().word()).add(test.values());
    }
}
