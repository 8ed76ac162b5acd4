package hive_bitmap.catalyst.statements;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import hive_bitmap.catalyst.queries.Helper;
import hive_bitmap.catalyst.queries.IndexedColumns;
import hive_bitmap.catalyst.queries.Planner;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.internal.SessionState;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Spark's parser, but for index statements, which become commands. A look at the first words tells whether a text may be
 * one; then Python says what it is. A proxy, since the methods of parsers differ between versions of Spark.
 */
public final class Statements implements InvocationHandler {
    private static final Logger LOG = LoggerFactory.getLogger("hive_bitmap");
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int WORDS = 3;
    /** What a DROP of our own begins with, as in hive_bitmap/metastore/metastore.py. */
    private static final String OURS = "/* hive_bitmap */";
    private static final long SECONDS_TO_START = 60;
    private final SparkSession session;
    private final ParserInterface spark;

    private Statements(SparkSession session, ParserInterface spark) {
        this.session = session;
        this.spark = spark;
    }

    public static ParserInterface parser(SparkSession session, ParserInterface spark) {
        return (ParserInterface) Proxy.newProxyInstance(
                Statements.class.getClassLoader(), new Class<?>[] {ParserInterface.class}, new Statements(session, spark));
    }

    /** Give a session that is there already such a parser; one that was made with it keeps it. */
    public static void into(SparkSession session) {
        SessionState state = ((org.apache.spark.sql.classic.SparkSession) session).sessionState();
        ParserInterface parser = state.sqlParser();
        if (Proxy.isProxyClass(parser.getClass()) && Proxy.getInvocationHandler(parser) instanceof Statements) return;
        try {
            Field field = SessionState.class.getDeclaredField("sqlParser");
            field.setAccessible(true);
            field.set(state, parser(session, parser));
        } catch (ReflectiveOperationException | RuntimeException e) {
            LOG.info("index statements are for hive_bitmap.sql alone in this session: {}", e.toString());
        }
    }

    @Override
    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
        if (method.getName().startsWith("parsePlan") && arguments[0] instanceof String text && !Planner.isPlanning()
                && !text.startsWith(OURS)) {
            List<String> words = firstWords(text);
            if (isIndexStatement(words) && isAnswered()) {
                LogicalPlan command = read(text);
                if (command != null) return command;
            } else if (isDrop(words) && isAnswered()) {
                return DropCommand.of(text, (LogicalPlan) passedOn(method, arguments));
            }
        }
        return passedOn(method, arguments);
    }

    private Object passedOn(Method method, Object[] arguments) throws Throwable {
        try {
            return method.invoke(spark, arguments);
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
    }

    private static boolean isAnswered() {
        return !Planner.isAbsent() || Helper.isInstalled() && !Planner.isOff();
    }

    /** The command that a text is; null if it is Spark's. */
    private LogicalPlan read(String text) {
        JsonNode said = asked(session, Statement.Wanted.PARSE, text);
        return said.isNull() ? null : IndexCommand.of(text, said.get("columns"));
    }

    /** The rows of an index statement, each a list of texts. */
    static JsonNode done(SparkSession session, String text) {
        try {
            return asked(session, Statement.Wanted.RUN, text).get("rows");
        } finally {
            IndexedColumns.clear();
        }
    }

    /** Drop the indexes of what a statement drops; where Python is away they stay, as {@code SHOW INDEX} then tells. */
    static void dropIndexes(SparkSession session, String text) {
        String away = Planner.isAbsent() ? Helper.awaited(session, SECONDS_TO_START) : null;
        if (away != null) {
            LOG.warn("{}: its indexes are not dropped along; {}", text, away);
            return;
        }
        asked(session, Statement.Wanted.DROP, text);
    }

    private static JsonNode asked(SparkSession session, Statement.Wanted wanted, String text) {
        if (Planner.isAbsent()) {
            String away = Helper.awaited(session, SECONDS_TO_START);
            if (away != null) throw new IndexStatementException(away);
        }
        Future<Object> answer = Planner.callAtLeisure(session, new Statement(wanted, text));
        try {
            JsonNode said = JSON.readTree((String) answer.get());
            if (said.has("error")) throw new IndexStatementException(said.get("error").asText());
            return said;
        } catch (InterruptedException e) {
            answer.cancel(true);
            Thread.currentThread().interrupt();
            throw new IndexStatementException("interrupted", e);
        } catch (ExecutionException e) {
            String why = Planner.isAbsent() || Planner.isServedByHelper() && Helper.hasDied()
                    ? "the Python process of hive_bitmap ended while it did this statement: look at SHOW INDEX, then try again"
                    : "the Python process of hive_bitmap failed, its log says how: " + e.getCause();
            throw new IndexStatementException(why, e.getCause());
        } catch (JsonProcessingException e) {
            throw new IllegalStateException(e);
        }
    }

    static boolean isIndexStatement(List<String> words) {
        String first = word(words, 0);
        String second = word(words, 1);
        return switch (first) {
            case "CREATE", "ALTER", "DROP" -> second.equals("INDEX");
            case "UPDATE" -> second.equals("INDEX") && words.size() > 2 && !List.of("SET", "AS").contains(word(words, 2));
            case "SHOW" -> second.startsWith("INDEX") || second.equals("FORMATTED") && word(words, 2).startsWith("INDEX");
            default -> false;
        };
    }

    static boolean isDrop(List<String> words) {
        return word(words, 0).equals("DROP") && List.of("TABLE", "DATABASE", "SCHEMA", "NAMESPACE").contains(word(words, 1));
    }

    private static String word(List<String> words, int at) {
        return at < words.size() ? words.get(at) : "";
    }

    /** The words that a text begins with, in upper case, three at most; spaces and comments are passed over. */
    static List<String> firstWords(String text) {
        List<String> words = new ArrayList<>();
        int at = behindSpace(text, 0);
        while (words.size() < WORDS && at < text.length()) {
            int end = at;
            while (end < text.length() && isOfWord(text.charAt(end))) end++;
            if (end == at) break;
            words.add(text.substring(at, end).toUpperCase(Locale.ROOT));
            at = behindSpace(text, end);
        }
        return words;
    }

    private static boolean isOfWord(char one) {
        return Character.isLetterOrDigit(one) || one == '_' || one == '`';
    }

    private static int behindSpace(String text, int from) {
        int at = from;
        while (at < text.length()) {
            if (Character.isWhitespace(text.charAt(at))) at++;
            else if (text.startsWith("--", at)) at = behindLine(text, at);
            else if (text.startsWith("/*", at) && !text.startsWith("/*+", at)) at = behindComment(text, at);
            else break;
        }
        return at;
    }

    private static int behindLine(String text, int from) {
        int at = from;
        while (at < text.length() && text.charAt(at) != '\n') at += text.startsWith("\\\n", at) ? 2 : 1;
        return at;
    }

    /** Behind a comment that begins here; comments nest. */
    private static int behindComment(String text, int from) {
        int depth = 0;
        int at = from;
        do {
            if (text.startsWith("*/", at)) depth--;
            else if (text.startsWith("/*", at)) depth++;
            at += text.startsWith("*/", at) || text.startsWith("/*", at) ? 2 : 1;
        } while (depth > 0 && at < text.length());
        return at;
    }
}
