package hive_bitmap.catalyst.queries;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import hive_bitmap.catalyst.python.PythonRequest;
import hive_bitmap.catalyst.spark.ArrowRows;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Expression;

/** The request to Python, when an {@link IndexAnswer} is executed, for the counts of the keys of each part. */
public final class Counting extends PythonRequest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private final Scan scan;
    private final String answer;
    final List<ArrowRows> parts = new ArrayList<>();

    /** {@code answer} is the id of the answer in Python. */
    Counting(SparkSession session, Scan scan, String answer) {
        super(session);
        this.scan = scan;
        this.answer = answer;
    }

    @Override
    public String kind() {
        return "count";
    }

    /** Returns the id of the answer, the session and the version of its settings, as JSON. */
    @Override
    public String text() {
        return JsonNodeFactory.instance.objectNode()
                .put("answer", answer).put("session", sessionName()).put("settings", settingsVersion()).toString();
    }

    @Override
    protected Expression expression(int only, int number) {
        return scan.leaves.get(number);
    }

    /** Reads the numbers of files in the scan's listing that Python returns, a JSON array, or null. */
    static List<Integer> unknown(String numbers) {
        if (numbers == null) return null;
        try {
            return JSON.readValue(numbers, new TypeReference<List<Integer>>() {});
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("Python did not answer with numbers of files: " + numbers, e);
        }
    }

    /** Takes a batch of keys and weights of a part; the first batch of each part comes in the order of the parts. */
    public void add(int part, String schema, byte[] batch) {
        if (part == parts.size()) parts.add(new ArrowRows(schema));
        parts.get(part).add(batch);
    }
}
