package hive_bitmap.catalyst.statements;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import hive_bitmap.catalyst.python.Helper;
import hive_bitmap.catalyst.python.IndexedColumns;
import hive_bitmap.catalyst.python.PythonCalls;
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
     * To name the columns of a statement's result; to execute it; to name the indexes of what it drops, and to drop them; to
     * attach the indexes of a table to its new name.
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

    /** Returns the {@code columns} of the result of an index statement, and their {@code types}; none if the text is another one. */
    static JsonNode parsed(SparkSession session, String text) {
        return new Statement(Kind.PARSE, text).answer(session);
    }

    /** Executes an index statement and returns the rows of its result, each a list of values. */
    static JsonNode run(SparkSession session, String text) {
        try {
            return new Statement(Kind.RUN, text).answer(session).get("rows");
        } finally {
            IndexedColumns.clear();
        }
    }

    /**
     * Returns the indexes of what a statement is about to drop, for {@link #dropIndexes}; null if there are none. If Python
     * cannot be started, fails, or does not answer in a minute, they stay, which is logged. Throws what refuses the statement:
     * an index table is not dropped as a table.
     */
    static String doomedIndexes(SparkSession session, String text) {
        JsonNode answer;
        try {
            answer = new Statement(Kind.DOOMED, text).answer(session, SECONDS_TO_START);
        } catch (TimeoutException e) {
            return stay(text, "the Python process of hive_bitmap has not answered in " + SECONDS_TO_START + " s");
        } catch (RuntimeException e) {
            if (Thread.currentThread().isInterrupted()) throw e;
            return stay(text, e.getMessage());
        }
        if (answer.has("refused")) throw IndexStatementException.of(answer.get("refused"));
        return answer.path("doomed").isEmpty() ? null : answer.toString();
    }

    /** Logs that the indexes of what a statement drops are left behind, if it has any. Returns null. */
    static String stay(String text, String why) {
        LOG.warn("{}: its indexes, if it has any, are not dropped along and stay: drop those that SHOW INDEX shows, and of a"
                + " database that is gone, hive-bitmap clean --location FOLDER deletes their files; {}", text, why);
        return null;
    }

    /** Drops indexes after Spark has executed the statement that they are of, which has succeeded whatever fails here. */
    static void dropIndexes(SparkSession session, String text, String doomed) {
        try {
            new Statement(Kind.DROP, doomed).answer(session);
        } catch (RuntimeException e) {
            LOG.warn("{}: its indexes are not dropped along, drop them by DROP INDEX; {}", text, e.getMessage());
        } finally {
            IndexedColumns.clear();
        }
    }

    /** Attaches the indexes of a table that Spark has renamed, whatever fails here. Names are lists of their parts. */
    static void attachIndexes(SparkSession session, String text, List<String> former, List<String> now) {
        try {
            new Statement(Kind.RENAMED, JSON.writeValueAsString(List.of(former, now))).answer(session);
        } catch (JsonProcessingException | RuntimeException e) {
            haveNotCome(text, e.getMessage());
        } finally {
            IndexedColumns.clear();
        }
    }

    /** Logs that the indexes of a table that was renamed, if it has any, are still those of the old name. */
    static void haveNotCome(String text, String why) {
        LOG.warn("{}: its indexes, if it has any, have not come along, hive-bitmap attach NEW --from OLD attaches them; {}", text, why);
    }

    private JsonNode answer(SparkSession session) {
        try {
            return answer(session, Long.MAX_VALUE);
        } catch (TimeoutException e) {
            throw new IllegalStateException(e);
        }
    }

    private JsonNode answer(SparkSession session, long seconds) throws TimeoutException {
        if (PythonCalls.isAbsent()) {
            String problem = Helper.awaited(session, SECONDS_TO_START);
            if (problem != null) throw new IndexStatementException(problem);
        }
        Future<Object> answer = PythonCalls.callStatement(session, this);
        try {
            JsonNode found = JSON.readTree((String) answer.get(seconds, TimeUnit.SECONDS));
            if (found.has("error")) throw IndexStatementException.of(found);
            return found;
        } catch (InterruptedException e) {
            answer.cancel(true);
            Thread.currentThread().interrupt();
            throw new IndexStatementException("interrupted", e);
        } catch (ExecutionException e) {
            String why = Helper.isPythonGone()
                    ? "the Python process of hive_bitmap ended while it did this statement: look at SHOW INDEX, then try again"
                    : "the Python process of hive_bitmap failed, its log says how: " + e.getCause();
            throw new IndexStatementException(why, e.getCause());
        } catch (JsonProcessingException e) {
            throw new IllegalStateException(e);
        }
    }
}
