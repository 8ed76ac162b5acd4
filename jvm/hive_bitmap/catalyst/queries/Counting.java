package hive_bitmap.catalyst.queries;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import hive_bitmap.catalyst.python.PythonCalls;
import hive_bitmap.catalyst.python.PythonRequest;
import hive_bitmap.catalyst.python.Settings;
import hive_bitmap.catalyst.spark.AnswerSize;
import hive_bitmap.catalyst.spark.ArrowRows;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.internal.SQLConf;

/** The request to Python for the counts of an {@link IndexAnswer}. It is sent when the answer is executed. */
public final class Counting extends PythonRequest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private final Scan scan;
    private final String answer;
    final List<ArrowRows> parts = new ArrayList<>(); // the keys and weights of each part, as far as Python has sent them
    private final AnswerSize size = new AnswerSize(Settings.of(SQLConf.get()).resultBytes()); // Python's own limit is lower

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

    /** Returns the request as JSON: the id of the answer, the session and the version of its settings. */
    @Override
    public String text() {
        return JsonNodeFactory.instance.objectNode()
                .put("answer", answer).put("session", sessionName()).put("settings", settingsVersion()).toString();
    }

    @Override
    protected StringBuilder deleted(int only, List<Integer> numbers) {
        return scan.deleted(numbers);
    }

    @Override
    protected Expression expression(int only, int number) {
        return scan.leaves.get(number);
    }

    /**
     * Has Python count the keys. Returns the files that Spark has to count itself, as numbers of the scan's listing; null if Spark
     * has to count all. Throws IllegalStateException if Python fails or takes too long; there is no timeout if the session is
     * strict or the caller chose to wait.
     */
    List<Integer> ask() {
        double seconds = Settings.of(SQLConf.get()).executionSeconds(!ChosenStrategy.mustPay(scan));
        try {
            String numbers = (String) PythonCalls.result(PythonCalls.call(session, this), seconds, "counted");
            return numbers == null ? null : JSON.readValue(numbers, new TypeReference<List<Integer>>() {});
        } catch (IllegalStateException e) {
            if (!Thread.currentThread().isInterrupted()) size.addBytes(0); // Python sends as text that the answer is too large
            throw e;
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("Python did not answer with numbers of files", e);
        }
    }

    /** Takes a batch of keys and weights of a part. Python calls it; the first batches come in the order of the parts. */
    public void add(int part, String schema, byte[] batch) {
        if (part == parts.size()) parts.add(new ArrowRows(schema));
        size.addBytes(batch.length);
        parts.get(part).add(batch);
    }
}
