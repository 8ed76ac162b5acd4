package hive_bitmap.catalyst.statements;

import com.fasterxml.jackson.databind.JsonNode;
import hive_bitmap.catalyst.python.Helper;
import hive_bitmap.catalyst.python.PythonCalls;
import hive_bitmap.catalyst.spark.SideQuery;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.internal.SessionState;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Spark's parser with index statements, which become commands. The first words of a text show whether it may be one; then
 * Python parses it. All other texts are left to Spark's own parser. This is a proxy, since the methods of parsers differ
 * between versions of Spark.
 */
public final class Statements implements InvocationHandler {
    private static final Logger LOG = LoggerFactory.getLogger("hive_bitmap");
    private static final int MAX_WORDS = 3;
    /** Marks a DROP that Python executes itself; the same as in hive_bitmap/metastore/metastore.py. */
    private static final String OURS = "/* hive_bitmap */";
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

    /** Replaces the parser of a session that exists already, unless it was created with this one. */
    public static void install(SparkSession session) {
        SessionState state = ((org.apache.spark.sql.classic.SparkSession) session).sessionState();
        ParserInterface parser = state.sqlParser();
        if (Proxy.isProxyClass(parser.getClass()) && Proxy.getInvocationHandler(parser) instanceof Statements) return;
        try {
            Field field = SessionState.class.getDeclaredField("sqlParser");
            field.setAccessible(true);
            field.set(state, parser(session, parser));
        } catch (ReflectiveOperationException | RuntimeException e) {
            LOG.info("in this session only hive_bitmap.sql takes index statements: {}", e.toString());
        }
    }

    @Override
    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
        if (method.getName().startsWith("parsePlan") && arguments[0] instanceof String text && !SideQuery.isRunning()
                && !text.startsWith(OURS)) {
            List<String> words = firstWords(text);
            if (isIndexStatement(words) && isEnabled()) {
                LogicalPlan command = parse(text);
                if (command != null) return command;
            } else if (isDrop(words) && isEnabled()) {
                return DropCommand.of(text, (LogicalPlan) delegate(method, arguments));
            }
        }
        return delegate(method, arguments);
    }

    private Object delegate(Method method, Object[] arguments) throws Throwable {
        try {
            return method.invoke(spark, arguments);
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
    }

    /** Whether Python answers, or a process can be started that does. */
    private static boolean isEnabled() {
        return !PythonCalls.isAbsent() || Helper.isInstalled() && !PythonCalls.isOff();
    }

    /** Returns the command for an index statement; null if the text is another one, which Spark has to parse. */
    private LogicalPlan parse(String text) {
        JsonNode columns = Statement.columns(session, text);
        return columns == null ? null : IndexCommand.of(text, columns);
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

    /** Returns the first words of a text in upper case, at most three, without spaces and comments. */
    static List<String> firstWords(String text) {
        List<String> words = new ArrayList<>();
        int at = afterSpace(text, 0);
        while (words.size() < MAX_WORDS && at < text.length()) {
            int end = at;
            while (end < text.length() && isWordCharacter(text.charAt(end))) end++;
            if (end == at) break;
            words.add(text.substring(at, end).toUpperCase(Locale.ROOT));
            at = afterSpace(text, end);
        }
        return words;
    }

    private static boolean isWordCharacter(char one) {
        return Character.isLetterOrDigit(one) || one == '_' || one == '`';
    }

    private static int afterSpace(String text, int from) {
        int at = from;
        while (at < text.length()) {
            if (Character.isWhitespace(text.charAt(at))) at++;
            else if (text.startsWith("--", at)) at = afterLine(text, at);
            else if (text.startsWith("/*", at) && !text.startsWith("/*+", at)) at = afterComment(text, at);
            else break;
        }
        return at;
    }

    private static int afterLine(String text, int from) {
        int at = from;
        while (at < text.length() && text.charAt(at) != '\n') at += text.startsWith("\\\n", at) ? 2 : 1;
        return at;
    }

    /** Returns the place after the comment that begins at {@code from}; comments nest. */
    private static int afterComment(String text, int from) {
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
