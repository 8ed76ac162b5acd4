package hive_bitmap.catalyst.queries;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import hive_bitmap.catalyst.python.Failures;
import hive_bitmap.catalyst.python.PythonCalls;
import hive_bitmap.catalyst.python.PythonRequest;
import hive_bitmap.catalyst.python.Settings;
import hive_bitmap.catalyst.spark.AnswerSize;
import hive_bitmap.catalyst.spark.ArrowRows;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.internal.SQLConf;

/**
 * The request to Python to carry out a decision, sent when a plan is executed. Depending on the decision, Python counts keys, reads
 * the rows of a part, or compares the decision's files with the current ones.
 */
final class Execution extends PythonRequest {
    private final String decision;
    private final Integer part;
    private final AnswerSize size;
    /** The batches that Python has sent: those of each key set, or those of the part. */
    final List<ArrowRows> sent = new ArrayList<>();

    /**
     * @param decision the id of the decision in Python
     * @param part the number of the part to read; null if Python reads no part
     * @param limit the largest size in bytes of what Python sends
     */
    private Execution(SparkSession session, String decision, Integer part, long limit) {
        super(session);
        this.decision = decision;
        this.part = part;
        this.size = new AnswerSize(limit);
    }

    /** Returns the request to count the keys of a decision. Python's own limit of bytes is lower than that of the request. */
    static Execution counting(SparkSession session, String decision) {
        return new Execution(session, decision, null, Settings.of(SQLConf.get()).resultBytes());
    }

    /** Returns the request to read the rows of a part. */
    static Execution reading(SparkSession session, String decision, int part) {
        return new Execution(session, decision, part, Long.MAX_VALUE);
    }

    /** Returns whether the files that Python checks for a decision are unchanged; false if the check fails. */
    static boolean isCurrent(SparkSession session, String decision) {
        try {
            return new Execution(session, decision, null, 0).carriedOut(false) != null;
        } catch (Exception | LinkageError e) {
            Failures.goOn(e);
            return false;
        }
    }

    @Override
    public String kind() {
        return "execute";
    }

    /** Returns the request as JSON: the id of the decision, and the number of the part if one is read. */
    @Override
    public String text() {
        ObjectNode fields = JsonNodeFactory.instance.objectNode().put("decision", decision);
        return (part == null ? fields : fields.put("part", part)).toString();
    }

    /**
     * Takes a batch of a key set or part; Python calls this. The first batch of each key set comes in the order of the key sets.
     */
    public void add(int number, String schema, byte[] batch) {
        if (number == sent.size()) sent.add(new ArrowRows(schema));
        size.addBytes(batch.length);
        sent.get(number).add(batch);
    }

    /**
     * Has Python carry out the decision. Returns its answer; null if Spark has to execute its own plan. Throws
     * IllegalStateException if Python fails or takes too long, and {@link AnswerSize.TooLarge}. There is no timeout if the session
     * is strict or the caller {@code waits}.
     */
    String carriedOut(boolean waits) {
        double seconds = Settings.of(SQLConf.get()).executionSeconds(waits);
        try {
            return (String) PythonCalls.result(PythonCalls.execute(session, this), seconds, "carried out a decision");
        } catch (IllegalStateException e) {
            if (!Thread.currentThread().isInterrupted()) size.addBytes(0); // raises TooLarge again, which Python passes on as text
            throw e;
        }
    }
}
