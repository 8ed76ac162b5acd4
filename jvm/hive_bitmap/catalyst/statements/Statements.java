package hive_bitmap.catalyst.statements;

import com.fasterxml.jackson.databind.JsonNode;
import hive_bitmap.catalyst.python.Helper;
import hive_bitmap.catalyst.python.PythonCalls;
import hive_bitmap.catalyst.python.SettingEntries;
import hive_bitmap.catalyst.spark.SideQuery;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.parser.ParameterContext;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.parser.SqlStatementSplitResult;
import org.apache.spark.sql.catalyst.parser.TemporalIdentifier;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.command.SetCommand;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.internal.VariableSubstitution;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.collection.immutable.Seq;

/**
 * Spark's parser, extended by index statements, which become commands. If the first words of a text show that it may be an index
 * statement, Python parses it. All other texts go to Spark's own parser, which also reports their errors. Parsers of older versions
 * of Spark have fewer methods; there, classes in the signatures of the missing methods are never loaded.
 */
public final class Statements implements ParserInterface {
    private static final Logger LOG = LoggerFactory.getLogger("hive_bitmap");
    private static final int MAX_WORDS = 3;
    private final SparkSession session;
    private final ParserInterface spark;

    private Statements(SparkSession session, ParserInterface spark) {
        this.session = session;
        this.spark = spark;
    }

    public static ParserInterface parser(SparkSession session, ParserInterface spark) {
        return new Statements(session, spark);
    }

    /** Replaces the parser of an existing session, unless it has this parser. */
    public static void install(SparkSession session) {
        SessionState state = ((org.apache.spark.sql.classic.SparkSession) session).sessionState();
        ParserInterface parser = state.sqlParser();
        if (parser instanceof Statements) return;
        try {
            Field field = SessionState.class.getDeclaredField("sqlParser");
            field.setAccessible(true);
            field.set(state, parser(session, parser));
        } catch (ReflectiveOperationException | RuntimeException e) {
            LOG.info("in this session only hive_bitmap.sql takes index statements: {}", e.toString());
        }
    }

    /** The method by which Spark parses a text that is not an index statement. */
    private interface Parsing {
        LogicalPlan plan() throws ParseException;
    }

    @Override
    public LogicalPlan parsePlan(String text) throws ParseException {
        return plan(text, () -> spark.parsePlan(text));
    }

    @Override
    public LogicalPlan parsePlanWithParameters(String text, ParameterContext parameters) throws ParseException {
        return plan(text, () -> spark.parsePlanWithParameters(text, parameters));
    }

    private LogicalPlan plan(String text, Parsing sparks) throws ParseException {
        if (!SideQuery.isRunning() && isIndexStatement(firstWords(text)) && isEnabled()) {
            LogicalPlan command = parse(new VariableSubstitution().substitute(text));
            if (command != null) return command;
        }
        LogicalPlan plan = sparks.plan();
        if (plan instanceof SetCommand set) requireKnown(set);
        return plan;
    }

    /** Throws if the statement sets an unknown name that looks like a setting of hive_bitmap. */

    private static void requireKnown(SetCommand set) {
        if (set.kv().isEmpty() || set.kv().get()._2().isEmpty()) return;
        String problem = SettingEntries.problemOfName(set.kv().get()._1());
        if (problem != null) throw new IndexStatementException(problem, "INVALID_PROPERTY_KEY", "42602");
    }

    @Override
    public LogicalPlan parseQuery(String text) throws ParseException {
        return spark.parseQuery(text);
    }

    @Override
    public Expression parseExpression(String text) throws ParseException {
        return spark.parseExpression(text);
    }

    @Override
    public TableIdentifier parseTableIdentifier(String text) throws ParseException {
        return spark.parseTableIdentifier(text);
    }

    @Override
    public TemporalIdentifier parseTemporalTableIdentifier(String text) throws ParseException {
        return spark.parseTemporalTableIdentifier(text);
    }

    @Override
    public FunctionIdentifier parseFunctionIdentifier(String text) throws ParseException {
        return spark.parseFunctionIdentifier(text);
    }

    @Override
    public Seq<String> parseMultipartIdentifier(String text) throws ParseException {
        return spark.parseMultipartIdentifier(text);
    }

    @Override
    public StructType parseRoutineParam(String text) throws ParseException {
        return spark.parseRoutineParam(text);
    }

    @Override
    public SqlStatementSplitResult splitStatements(String text) {
        return spark.splitStatements(text);
    }

    @Override
    public DataType parseDataType(String text) throws ParseException {
        return spark.parseDataType(text);
    }

    @Override
    public StructType parseTableSchema(String text) throws ParseException {
        return spark.parseTableSchema(text);
    }

    /** Returns whether index statements can be executed: Python answers, or a process that answers can be started. */
    static boolean isEnabled() {
        return !PythonCalls.isAbsent() || Helper.isInstalled() && !PythonCalls.isOff();
    }

    /** Returns the command for an index statement; null if Spark has to parse the text. */
    private LogicalPlan parse(String text) {
        JsonNode result = Statement.parsed(session, text);
        return result.has("columns") ? IndexCommand.of(text, result.get("columns"), result.path("types")) : null;
    }

    /** Returns whether a text may be an index statement, by its first words. */
    static boolean isIndexStatement(List<String> words) {
        String first = word(words, 0);
        String second = word(words, 1);
        return switch (first) {
            case "CREATE", "ALTER", "DROP" -> second.equals("INDEX");
            case "REFRESH" -> second.equals("INDEX") && words.size() > 2;
            case "UPDATE" -> second.equals("INDEX") && words.size() > 2 && !List.of("SET", "AS").contains(word(words, 2));
            case "SHOW" -> second.startsWith("INDEX") || second.equals("FORMATTED") && word(words, 2).startsWith("INDEX");
            default -> false;
        };
    }

    private static String word(List<String> words, int at) {
        return at < words.size() ? words.get(at) : "";
    }

    /** Returns the first words of a text, at most three, in upper case. Spaces and comments are skipped. */
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

    private static boolean isWordCharacter(char character) {
        return Character.isLetterOrDigit(character) || character == '_' || character == '`';
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

    /** Returns the position after the comment that begins at {@code from}. Comments nest. */
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
