package hive_bitmap.catalyst.following;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import hive_bitmap.catalyst.python.IndexedColumns;
import java.util.ArrayList;
import java.util.List;

/**
 * A message to Python about a write. The reply has the table's indexed columns as a JSON array, or null if it does not have them.
 */
public final class Written {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Write write;
    private final long version = IndexedColumns.version();

    Written(Write write) {
        this.write = write;
    }

    public String kind() {
        return "written";
    }

    public String text() {
        return write.json();
    }

    /** Caches the indexed columns in the reply, so that the next write to a table without an index is not sent. */
    void answered(Object reply) throws JsonProcessingException {
        JsonNode columns = JSON.readTree((String) reply);
        if (write.table() == null || !columns.isArray()) return;
        List<String> names = new ArrayList<>();
        columns.forEach(column -> names.add(column.asText()));
        IndexedColumns.add(write.table(), names, version);
    }
}
