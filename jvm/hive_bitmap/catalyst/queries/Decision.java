package hive_bitmap.catalyst.queries;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import hive_bitmap.catalyst.reading.Narrowing;
import java.util.ArrayList;
import java.util.List;

/**
 * Python's decision on a scan: a JSON object that hive_bitmap/spark/catalyst/decision.py writes.
 *
 * @param prices the version of the prices that the decision is based on
 */
record Decision(JsonNode fields, long prices) {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Parses a reply. Returns the decision on each scan of the question, in the order of the scans. */
    static List<Decision> all(String reply) {
        List<Decision> decisions = new ArrayList<>();
        try {
            JsonNode fields = JSON.readTree(reply);
            long prices = fields.path("prices").asLong();
            for (JsonNode scan : fields.path("scans")) decisions.add(new Decision(scan, prices));
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("Python did not reply with JSON", e);
        }
        return decisions;
    }

    String kind() {
        return text("decision");
    }

    /** Returns the id under which Python keeps the decision, so that {@link Execution} can name it. */
    String id() {
        return text("id");
    }

    /** Returns whether Python keeps the decision, so that it has an {@link #id}. */
    boolean isKept() {
        return fields.has("id");
    }

    String text(String name) {
        return fields.required(name).asText();
    }

    /** Returns the report, a JSON object. */
    String report() {
        return fields.required("report").toString();
    }

    /** Returns the key columns of all indexes of the scan's table; null if this JVM knows them already, as the question said. */
    List<String> indexedColumns() {
        if (!fields.has("indexed_columns")) return null;
        List<String> names = new ArrayList<>();
        for (JsonNode name : fields.get("indexed_columns")) names.add(name.asText());
        return names;
    }

    /**
     * Returns how long scans like this one are left alone: "table" (under any condition), "condition" (under the same condition) or
     * "" (only this time).
     */
    String lasting() {
        return fields.path("lasting").asText();
    }

    /** Returns the code of the reason for leaving the scan alone. */
    String reason() {
        return fields.required("report").path("reason").asText();
    }

    /** Returns the names of the indexes that narrow the scan or answer its aggregation. */
    List<String> indexes() {
        List<String> names = new ArrayList<>();
        for (JsonNode name : fields.path("indexes")) names.add(name.asText());
        return names;
    }

    /** Returns how many bytes of the scan's files need not be read. */
    long bytesSaved() {
        return fields.path("bytes_saved").asLong();
    }

    /** Returns the parts of a scan's rows, in order. Each part names its reader. */
    List<JsonNode> parts() {
        List<JsonNode> parts = new ArrayList<>();
        for (JsonNode part : fields.required("parts")) parts.add(part);
        return parts;
    }

    long bytes() {
        return fields.required("bytes").asLong();
    }

    Narrowing narrowing() {
        JsonNode report = fields.required("report");
        return new Narrowing(
                text("label"), report.path("blocks_selected").asLong(), report.path("blocks_total").asLong(),
                report.path("files_selected").asLong(), report.path("files_total").asLong());
    }
}
