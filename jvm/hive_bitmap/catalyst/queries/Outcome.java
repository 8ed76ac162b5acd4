package hive_bitmap.catalyst.queries;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import hive_bitmap.catalyst.reading.Narrowing;
import java.util.ArrayList;
import java.util.List;

/** What Python has decided on a scan: a JSON object that hive_bitmap/spark/catalyst/outcomes.py writes. */
record Outcome(JsonNode fields) {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Reads a reply: the outcome for each scan of a question, in the order of the scans. */
    static List<Outcome> all(String reply) {
        List<Outcome> outcomes = new ArrayList<>();
        try {
            for (JsonNode scan : JSON.readTree(reply).path("scans")) outcomes.add(new Outcome(scan));
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("Python did not reply with JSON", e);
        }
        return outcomes;
    }

    String kind() {
        return text("outcome");
    }

    String text(String name) {
        return fields.required(name).asText();
    }

    /** Returns the report, a JSON object. */
    String report() {
        return fields.required("report").toString();
    }

    /** Returns the key columns of all indexes of the scan's table; null if the question said that they are known. */
    List<String> indexedColumns() {
        if (!fields.has("indexed_columns")) return null;
        List<String> names = new ArrayList<>();
        for (JsonNode name : fields.get("indexed_columns")) names.add(name.asText());
        return names;
    }

    /** Returns for what else Python would leave the scan alone: "table", whatever its condition, "condition", or nothing. */
    String lasting() {
        return fields.path("lasting").asText();
    }

    /** Returns the code of the reason why the scan is left alone. */
    String reason() {
        return fields.required("report").path("reason").asText();
    }

    /** Returns the names of the indexes that narrow the scan, or answer the aggregation over it. */
    List<String> indexes() {
        List<String> names = new ArrayList<>();
        for (JsonNode name : fields.path("indexes")) names.add(name.asText());
        return names;
    }

    /** Returns the bytes of the scan's files that need not be read. */
    long bytesSaved() {
        return fields.path("bytes_saved").asLong();
    }

    /** Returns the parts of the rows of a scan, one after the other, and who reads each. */
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
