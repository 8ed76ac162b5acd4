package hive_bitmap.catalyst.statements;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.SparkThrowable;

/**
 * Thrown if an index statement cannot be parsed or executed. The message says why, and what to do. Like Spark's messages, it begins
 * with one of Spark's error conditions in brackets; if none fits, the condition is null.
 */
public final class IndexStatementException extends IllegalArgumentException implements SparkThrowable {
    private static final long serialVersionUID = 1;

    private final String condition;
    private final String state;

    IndexStatementException(String message, String condition, String state) {
        super(condition == null || message.startsWith("[") ? message : "[" + condition + "] " + message);
        this.condition = condition;
        this.state = state;
    }

    IndexStatementException(String message) {
        this(message, null, null);
    }

    IndexStatementException(String message, Throwable cause) {
        super(message, cause);
        this.condition = null;
        this.state = null;
    }

    /** Returns the exception for an error in Python's answer. */
    static IndexStatementException of(JsonNode answer) {
        return new IndexStatementException(
                answer.get("error").asText(), answer.path("condition").asText(null), answer.path("sqlstate").asText(null));
    }

    @Override
    public String getCondition() {
        return condition;
    }

    @Override
    public String getSqlState() {
        return state;
    }
}
