package hive_bitmap.catalyst.following;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import hive_bitmap.catalyst.spark.Names;
import java.util.Collection;
import java.util.Map;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils;

/**
 * A write that has changed partitions of a table, or files in a folder, in the form that Python gets.
 *
 * @param table a table with its catalog and database; null for a folder
 * @param path the folder that was written to by its path, though a table may have it; null if {@code table} is given
 * @param partitions partition specs: values of some or all partition columns, by column. Partitions that match one of them may have
 *     changed; null if any partition may have changed
 */
record Write(TableIdentifier table, String path, Collection<Map<String, String>> partitions) {
    /** The maximum number of partitions to list; an insert into more partitions counts as a write to the whole table. */
    static final int MOST_PARTITIONS = 1_000;

    static Write toTable(TableIdentifier table) {
        return new Write(table, null, null);
    }

    /**
     * Returns a write to exactly these partitions, perhaps none; to the whole table if one of them has no values, or if there are
     * too many.
     */
    static Write toPartitions(TableIdentifier table, Collection<Map<String, String>> partitions) {
        boolean isAny = partitions.size() > MOST_PARTITIONS || partitions.contains(Map.<String, String>of());
        return new Write(table, null, isAny ? null : partitions);
    }

    /** Returns a write to the partition specs of a statement; without specs, to the whole table. */
    static Write bySpecs(TableIdentifier table, Collection<Map<String, String>> specs) {
        return specs.isEmpty() ? toTable(table) : toPartitions(table, specs);
    }

    static Write toFolder(String path) {
        return new Write(null, path, null);
    }

    /** Returns whether a value in a folder's name stands for NULL or an empty text. */
    private static boolean isNull(String value) {
        return value == null || value.isEmpty() || value.equals(ExternalCatalogUtils.DEFAULT_PARTITION_NAME());
    }

    String json() {
        ObjectNode json = JsonNodeFactory.instance.objectNode();
        if (table == null) return json.put("path", path).toString();
        String catalog = table.catalog().get();
        json.put("catalog", catalog.equals(Names.SESSION_CATALOG) ? "" : catalog);
        json.put("database", table.database().get()).put("table", table.table());
        if (partitions == null) return json.putNull("partitions").toString();
        ArrayNode listed = json.putArray("partitions");
        for (Map<String, String> partition : partitions) {
            ObjectNode values = listed.addObject();
            partition.forEach((column, value) -> values.put(column, isNull(value) ? null : value));
        }
        return json.toString();
    }
}
