package hive_bitmap.catalyst.lake;

import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;

/**
 * The columns that partition an Iceberg table by identity: all rows of a file have the same value, which is in the file's
 * partition.
 */
final class IdentityPartitions {
    private static final int MOST = 100; // partitions that are looked up one by one, for their values

    private IdentityPartitions() {}

    /** Returns the identity columns of all partition specs of a table, in the order of the relation. */
    static List<String> columns(DataSourceV2Relation relation, Object schema) {
        Set<Object> sources = new HashSet<>();
        Object table = Reflected.get(relation.table(), "table");
        for (Object spec : Reflected.<Map<Integer, Object>>get(table, "specs").values()) {
            for (Object field : Reflected.<List<Object>>get(spec, "fields")) if (isIdentity(field)) sources.add(Reflected.get(field, "sourceId"));
        }
        return Arrays.stream(relation.schema().fieldNames()).filter(name -> sources.contains(id(schema, name))).toList();
    }

    private static boolean isIdentity(Object field) {
        return String.valueOf(Reflected.<Object>get(field, "transform")).equals("identity");
    }

    /** Returns the id of a column in an Iceberg schema; null if the schema lacks it. */
    private static Object id(Object schema, String column) {
        Object field = Reflected.call(schema, "findField", column);
        return field == null ? null : Reflected.get(field, "fieldId");
    }

    /**
     * Groups tasks by the values of these columns, as text (null is NULL). Returns null if the partition spec of a file lacks a
     * column, or if there are too many partitions.
     */
    static Map<List<String>, List<Object>> of(List<Object> tasks, List<String> columns, Object schema) {
        Map<List<String>, List<Object>> tasksByValues = new LinkedHashMap<>();
        for (Object task : tasks) {
            List<String> values = new ArrayList<>();
            for (String column : columns) {
                int position = position(task, id(schema, column));
                if (position < 0) return null;
                Object partition = Reflected.get(Reflected.get(task, "file"), "partition");
                values.add(text(Reflected.call(partition, "get", position, Object.class), schema, column));
            }
            tasksByValues.computeIfAbsent(values, key -> new ArrayList<>()).add(task);
            if (tasksByValues.size() > MOST) return null;
        }
        return tasksByValues.isEmpty() ? null : tasksByValues;
    }

    /** Returns the position of a column among the values of a task's partition; -1 if the partition lacks the column. */
    private static int position(Object task, Object id) {
        List<Object> fields = Reflected.get(Reflected.get(task, "spec"), "fields");
        for (int at = 0; at < fields.size(); at++) {
            if (isIdentity(fields.get(at)) && Reflected.get(fields.get(at), "sourceId").equals(id)) return at;
        }
        return -1;
    }

    private static String text(Object value, Object schema, String column) {
        if (value == null) return null;
        boolean isDate = String.valueOf(Reflected.<Object>get(Reflected.call(schema, "findField", column), "type")).equals("date");
        return isDate ? LocalDate.ofEpochDay((Integer) value).toString() : value.toString();
    }
}
