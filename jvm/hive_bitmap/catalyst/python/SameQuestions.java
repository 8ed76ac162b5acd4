package hive_bitmap.catalyst.python;

import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeoutException;
import org.apache.spark.SparkContext;

/** Questions that several queries ask at the same time: one of them asks Python, and the others wait for the same reply. */
public final class SameQuestions {
    private static final Map<String, CompletableFuture<String>> ASKED = new ConcurrentHashMap<>();

    static {
        CurrentContext.atEnd(ASKED::clear);
    }

    private SameQuestions() {}

    /**
     * Waits for the reply to the question of another query that is being asked now, for so many seconds where no job runs; it is
     * null if there is none. If there is no other, this query is the first, and has to call {@link #replied}.
     */
    public static Asked ask(String question, SparkContext context, double seconds) throws InterruptedException {
        CompletableFuture<String> mine = new CompletableFuture<>();
        CompletableFuture<String> other = ASKED.putIfAbsent(question, mine);
        if (other == null) return new Asked(true, null);
        try {
            return new Asked(false, Patience.await(other, context, seconds));
        } catch (TimeoutException e) {
            return new Asked(false, null);
        } catch (ExecutionException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Whether this query is the first to ask, and the reply to another one that is. */
    public record Asked(boolean isFirst, String reply) {}

    /** Hands a reply on to those that wait for it; null if there is none. */
    public static void replied(String question, String reply) {
        CompletableFuture<String> mine = ASKED.remove(question);
        if (mine != null) mine.complete(reply);
    }
}
