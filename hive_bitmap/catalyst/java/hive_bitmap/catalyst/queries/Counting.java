package hive_bitmap.catalyst.queries;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import hive_bitmap.catalyst.spark.ArrowRows;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.SparkSession;

/** What Python is asked when an answer from the index is executed: the counts of the keys, a part at a time. */
public final class Counting extends Inquiry {
    private static final ObjectMapper JSON = new ObjectMapper();
    private final Scan scan;
    private final String number;
    final List<ArrowRows> parts = new ArrayList<>();

    Counting(SparkSession session, Scan scan, String number) {
        super(session);
        this.scan = scan;
        this.number = number;
    }

    @Override
    public String kind() {
        return "count";
    }

    /** The number by which Python knows what is to be counted, the session and the version of its settings. */
    @Override
    public String text() {
        return JsonNodeFactory.instance.objectNode()
                .put("number", number).put("session", sessionName()).put("settings", settingsNumber()).toString();
    }

    @Override
    Scan scan(int only) {
        return scan;
    }

    /** Paths as Python answers them, a JSON array, or null. */
    List<String> unknown(String answer) {
        if (answer == null) return null;
        try {
            return JSON.readValue(answer, new TypeReference<List<String>>() {});
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("Python did not answer with paths: " + answer, e);
        }
    }

    /** Counts of a part, its keys and their weight: the first batch of it, or one more. */
    public void add(int part, String schema, byte[] batch) {
        if (part == parts.size()) parts.add(new ArrowRows(schema));
        parts.get(part).add(batch);
    }
}
