package hive_bitmap.catalyst.python;

import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeoutException;
import org.apache.spark.SparkContext;

/** Questions that several queries ask at the same time. The first query asks Python; the others wait for the same reply. */
public final class SameQuestions {
    private static final Map<String, CompletableFuture<String>> ASKED = new ConcurrentHashMap<>();

    static {
        CurrentContext.atEnd(ASKED::clear);
    }

    private SameQuestions() {}

    /**
     * Waits for the reply if another query is asking the same question. The timeout is {@code seconds}, as {@link Patience} counts
     * them; the reply is null if there is none. If no other query is asking, this query is the first and has to call
     * {@link #replied}.
     */
    public static Asked ask(String question, SparkContext context, double seconds) throws InterruptedException {
        CompletableFuture<String> futureReply = new CompletableFuture<>();
        CompletableFuture<String> replyToOther = ASKED.putIfAbsent(question, futureReply);
        if (replyToOther == null) return new Asked(true, null);
        try {
            return new Asked(false, Patience.await(replyToOther, context, seconds, () -> 0));
        } catch (TimeoutException e) {
            return new Asked(false, null);
        } catch (ExecutionException e) {
            throw new IllegalStateException(e);
        }
    }

    /** The result of asking: whether this query is the first to ask. If not, {@code reply} is the reply to the first query. */
    public record Asked(boolean isFirst, String reply) {}

    /** Hands a reply to the queries that wait for it. It is null if there is none. */
    public static void replied(String question, String reply) {
        CompletableFuture<String> futureReply = ASKED.remove(question);
        if (futureReply != null) futureReply.complete(reply);
    }
}
