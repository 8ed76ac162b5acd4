package hive_bitmap.catalyst.statements;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import hive_bitmap.catalyst.python.Helper;
import hive_bitmap.catalyst.python.PythonCalls;
import hive_bitmap.catalyst.python.Verdicts;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.spark.sql.SparkSession;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A request to Python about an SQL text that may be an index statement. */
public final class Statement {
    private static final Logger LOG = LoggerFactory.getLogger("hive_bitmap");
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long SECONDS_TO_START = 60;

    /**
     * The kinds of requests; Python knows them by their lower-case names. PARSE returns the columns of a statement's result, RUN
     * executes the statement, DOOMED returns the indexes that it drops, DROP drops these, RENAMED attaches the indexes of a table
     * to its new name.
     */
    private enum Kind { PARSE, RUN, DOOMED, DROP, RENAMED }

    private final Kind kind;
    private final String text;

    private Statement(Kind kind, String text) {
        this.kind = kind;
        this.text = text;
    }

    public String kind() {
        return kind.name().toLowerCase(java.util.Locale.ROOT);
    }

    public String text() {
        return text;
    }

    /**
     * Returns the {@code columns} of an index statement's result and their {@code types}; the object has neither if the text is a
     * different statement.
     */
    static JsonNode parsed(SparkSession session, String text) {
        return new Statement(Kind.PARSE, text).answer(session);
    }

    /** Executes an index statement and returns the rows of its result, each a list of values. */
    static JsonNode run(SparkSession session, String text) {
        try {
            return new Statement(Kind.RUN, text).answer(session).get("rows");
        } finally {
            Verdicts.indexesChanged();
        }
    }

    /**
     * Returns the indexes that a statement drops with its tables, for {@link #dropIndexes}; null if there are none. If Python cannot
     * be started, fails, or does not answer within a minute, the indexes stay, which is logged. Throws IndexStatementException if
     * the statement is refused: an index table must not be dropped as a table.
     */
    static String indexesToDrop(SparkSession session, String text) {
        JsonNode answer;
        try {
            answer = new Statement(Kind.DOOMED, text).answer(session, SECONDS_TO_START);
        } catch (TimeoutException e) {
            return logNotDropped(text, "the Python process of hive_bitmap has not answered in " + SECONDS_TO_START + " s");
        } catch (RuntimeException e) {
            if (Thread.currentThread().isInterrupted()) throw e;
            return logNotDropped(text, e.getMessage());
        }
        if (answer.has("refused")) throw IndexStatementException.of(answer.get("refused"));
        return answer.path("doomed").isEmpty() ? null : answer.toString();
    }

    /** Logs that a statement leaves any indexes of its tables behind; returns null. */
    static String logNotDropped(String text, String why) {
        LOG.warn("{}: its indexes, if it has any, are not dropped: drop those that SHOW INDEX shows; if the"
                + " database is gone, hive-bitmap clean --location FOLDER deletes their files; {}", text, why);
        return null;
    }

    /** Drops indexes after Spark has executed a statement. The statement has succeeded, so failures here are only logged. */
    static void dropIndexes(SparkSession session, String text, String indexesToDrop) {
        try {
            new Statement(Kind.DROP, indexesToDrop).answer(session);
        } catch (RuntimeException e) {
            LOG.warn("{}: its indexes are not dropped: drop them by DROP INDEX; {}", text, e.getMessage());
        } finally {
            Verdicts.indexesChanged();
        }
    }

    /**
     * Attaches the indexes of a table that Spark has renamed. Failures are only logged. {@code former} and {@code newName} are
     * the parts of the old and the new name.
     */
    static void attachIndexes(SparkSession session, String text, List<String> former, List<String> newName) {
        try {
            new Statement(Kind.RENAMED, JSON.writeValueAsString(List.of(former, newName))).answer(session);
        } catch (JsonProcessingException | RuntimeException e) {
            logNotAttached(text, e.getMessage());
        } finally {
            Verdicts.indexesChanged();
        }
    }

    /** Logs that indexes of a renamed table may still belong to the old name. */
    static void logNotAttached(String text, String why) {
        LOG.warn("{}: indexes of the table may still have its old name: attach them by hive-bitmap attach NEW --from OLD; {}", text, why);
    }

    private JsonNode answer(SparkSession session) {
        try {
            return answer(session, Long.MAX_VALUE);
        } catch (TimeoutException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Returns the answer of the Python process; starts the process if it does not run. */
    private JsonNode answer(SparkSession session, long seconds) throws TimeoutException {
        if (PythonCalls.isAbsent()) {
            String problem = Helper.awaited(session, SECONDS_TO_START);
            if (problem != null) throw new IndexStatementException(problem);
        }
        Future<Object> answer = PythonCalls.callStatement(session, this);
        try {
            JsonNode reply = JSON.readTree((String) answer.get(seconds, TimeUnit.SECONDS));
            if (reply.has("error")) throw IndexStatementException.of(reply);
            return reply;
        } catch (InterruptedException e) {
            answer.cancel(true);
            Thread.currentThread().interrupt();
            throw new IndexStatementException("interrupted", e);
        } catch (ExecutionException e) {
            String why = Helper.isPythonGone()
                    ? "the Python process of hive_bitmap ended while it executed this statement: look at SHOW INDEX, then try again"
                    : "the Python process of hive_bitmap failed, its log says how: " + e.getCause();
            throw new IndexStatementException(why, e.getCause());
        } catch (JsonProcessingException e) {
            throw new IllegalStateException(e);
        }
    }
}
