package hive_bitmap.catalyst.keys;

import hive_bitmap.catalyst.spark.Allowlist;
import hive_bitmap.catalyst.spark.Expressions;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.TimeZoneAwareExpression;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Enumeration;
import scala.Option;

/**
 * The functions whose values an index may store. They are deterministic, and have equal values for equal arguments in all releases
 * of a feature version of Spark. Besides the arguments, some depend on the session's time zone, with the rules of the JVM's tzdata,
 * or on ANSI mode ({@link #dependsOnZone}, {@link #dependsOnAnsi}). Apart from the hashes, which are never NULL, the value is NULL
 * only if an argument is NULL.
 */
final class StoredFunctions {
    private static final String PACKAGE = "org.apache.spark.sql.catalyst.expressions.";
    private static final Set<String> OF_DATES = Set.of(
            "Year", "Quarter", "Month", "DayOfMonth", "DayOfWeek", "WeekDay", "DayOfYear", "WeekOfYear");
    private static final Set<String> OF_TIMES = Set.of("Hour", "Minute", "Second");
    private static final Set<String> HASHES = Set.of("XxHash64", "Murmur3Hash");
    private static final Set<String> REMAINDERS = Set.of("Remainder", "Pmod");
    private static final Set<String> DATE_UNITS = Set.of("YEAR", "YYYY", "YY", "QUARTER", "MONTH", "MM", "MON", "WEEK");
    private static final Set<String> TIME_UNITS = Set.of(
            "YEAR", "YYYY", "YY", "QUARTER", "MONTH", "MM", "MON", "WEEK", "DAY", "DD", "HOUR", "MINUTE", "SECOND", "MILLISECOND",
            "MICROSECOND");
    private static final Map<String, String> OTHER_NAMES = Map.of(
            "YYYY", "YEAR", "YY", "YEAR", "MM", "MONTH", "MON", "MONTH", "DD", "DAY");
    private static final String LISTED = "date_trunc, trunc, to_date, CAST to DATE or to another integer type, year, quarter, month, "
            + "weekofyear, day, dayofyear, dayofweek, weekday, hour, minute, second, substring, left, %, pmod, xxhash64, hash";

    private StoredFunctions() {}

    /** Returns why an expression cannot be stored; null if it can be. */
    static String refusal(Expression expression) {
        List<Expression> children = Scala.list(expression.children());
        if (!expression.deterministic()) return Expressions.sql(expression) + " is not deterministic";
        if (expression instanceof AttributeReference column) {
            if (Allowlist.isChar(column) || column.metadata().contains("__CHAR_VARCHAR_TYPE_STRING")) {
                return "column " + column.name() + " is CHAR or VARCHAR";
            }
            return isKey(column.dataType()) ? null : "column " + column.name() + " is " + column.dataType().simpleString();
        }
        if (!isListed(expression, children)) {
            return Expressions.sql(expression) + " is not among the functions whose values an index may store, which are " + LISTED;
        }
        for (Expression child : children) {
            String why = child instanceof Literal ? null : refusal(child);
            if (why != null) return why;
        }
        return null;
    }

    /** Returns whether an expression can be stored, as {@link #refusal} does, but without the cost of a text. */
    static boolean canStore(Expression expression) {
        if (expression instanceof AttributeReference) return refusal(expression) == null;
        List<Expression> children = Scala.list(expression.children());
        return isListed(expression, children) && children.stream().allMatch(child -> child instanceof Literal || canStore(child));
    }

    private static boolean isListed(Expression expression, List<Expression> children) {
        String name = name(expression);
        if (expression instanceof Cast cast) {
            DataType from = cast.child().dataType();
            boolean isKnown = isInteger(from) && isInteger(cast.dataType()) || cannotFail(cast);
            return isKnown && (cast.evalMode() == EvalMode.LEGACY() || cast.evalMode() == EvalMode.ANSI());
        }
        if (OF_DATES.contains(name)) return children.get(0).dataType() instanceof DateType;
        if (OF_TIMES.contains(name)) return isTime(children.get(0).dataType());
        if (HASHES.contains(name)) return children.stream().noneMatch(child -> child instanceof Literal);
        if (REMAINDERS.contains(name)) return isInteger(children.get(0).dataType()) && isPositive(children.get(1));
        return switch (name) {
            case "TruncTimestamp" -> isUnit(children.get(0), TIME_UNITS) && isTime(children.get(1).dataType());
            case "TruncDate" -> children.get(0).dataType() instanceof DateType && isUnit(children.get(1), DATE_UNITS);
            case "Substring" -> children.get(0).dataType().equals(StringType$.MODULE$)
                    && Expressions.integer(children.get(1)) != null && Expressions.integer(children.get(2)) != null;
            default -> false;
        };
    }

    /**
     * Returns an expression in one of several spellings that always have the same value: casts that cannot fail have one mode, casts
     * that need no time zone have none, units have one name, and a text begins at 1.
     */
    static Expression normalized(Expression expression) {
        return (Expression) expression.transformUp(Scala.replacing(StoredFunctions::respelled));
    }

    private static Expression respelled(Expression node) {
        if (node instanceof Cast cast) {
            Enumeration.Value mode = cannotFail(cast) ? EvalMode.LEGACY() : cast.evalMode();
            Option<String> zone = cast.needsTimeZone() ? cast.timeZoneId() : Option.empty();
            boolean isSpelled = mode.equals(cast.evalMode()) && zone.equals(cast.timeZoneId());
            return isSpelled ? null : new Cast(cast.child(), cast.dataType(), zone, mode);
        }
        return switch (name(node)) {
            case "TruncTimestamp" -> withUnit(node, 0, TIME_UNITS);
            case "TruncDate" -> withUnit(node, 1, DATE_UNITS);
            case "Substring" -> Integer.valueOf(0).equals(Expressions.integer(Scala.list(node.children()).get(1)))
                    ? withChild(node, 1, new Literal(1, DataTypes.IntegerType)) : null;
            default -> null;
        };
    }

    private static Expression withUnit(Expression node, int at, Set<String> known) {
        Expression unit = Scala.list(node.children()).get(at);
        if (!isUnit(unit, known) || !unit.dataType().equals(StringType$.MODULE$)) return null;
        String upper = unit.toString().toUpperCase(Locale.ROOT);
        String name = OTHER_NAMES.getOrDefault(upper, upper);
        return name.equals(unit.toString()) ? null : withChild(node, at, new Literal(UTF8String.fromString(name), StringType$.MODULE$));
    }

    private static Expression withChild(Expression node, int at, Expression child) {
        List<Expression> children = new ArrayList<>(Scala.list(node.children()));
        children.set(at, child);
        return (Expression) node.withNewChildren(Scala.seq(children));
    }

    /** Returns how coarse a unit of time is, as Spark numbers units. */
    static int level(String unit) {
        return DateTimeUtils.parseTruncLevel(UTF8String.fromString(unit));
    }

    private static boolean isUnit(Expression unit, Set<String> known) {
        return unit instanceof Literal literal && literal.value() != null && known.contains(literal.value().toString().toUpperCase(Locale.ROOT));
    }

    private static boolean isPositive(Expression divisor) {
        return divisor instanceof Literal literal && literal.value() instanceof Number number && isInteger(literal.dataType()) && number.longValue() > 0;
    }

    static boolean isInteger(DataType type) {
        return type instanceof ByteType || type instanceof ShortType || type instanceof IntegerType || type instanceof LongType;
    }

    static boolean isTime(DataType type) {
        return type instanceof TimestampType || type instanceof TimestampNTZType;
    }

    static boolean isKey(DataType type) {
        return isInteger(type) || isTime(type) || type instanceof DateType || type.equals(StringType$.MODULE$);
    }

    static boolean hasHash(Expression expression) {
        return expression.exists(Scala.predicate(node -> HASHES.contains(name(node))));
    }

    static String name(Expression expression) {
        String name = expression.getClass().getName();
        return name.startsWith(PACKAGE) ? name.substring(PACKAGE.length()) : "";
    }

    static boolean dependsOnAnsi(Expression node) {
        return REMAINDERS.contains(name(node)) || node instanceof Cast cast && cast.evalMode() != EvalMode.LEGACY()
                || node instanceof Cast narrowing && !cannotFail(narrowing);
    }

    static boolean dependsOnZone(Expression node) {
        if (!(node instanceof TimeZoneAwareExpression)) return false;
        return !(node instanceof Cast cast) || cast.needsTimeZone();
    }

    /** Returns whether a cast among these functions has a value for each argument. */
    static boolean cannotFail(Cast cast) {
        DataType from = cast.child().dataType();
        DataType to = cast.dataType();
        if (isInteger(from) && isInteger(to)) return from.defaultSize() <= to.defaultSize();
        return isTime(from) && to instanceof DateType || from instanceof DateType && isTime(to) || isTime(from) && isTime(to);
    }

    /** Returns whether an expression of these functions fails for some values of its columns. */
    static boolean canFail(Expression expression) {
        return expression.exists(Scala.predicate(node -> node instanceof Cast cast
                ? !cannotFail(cast) && cast.evalMode() != EvalMode.LEGACY() || isTime(cast.dataType())
                : name(node).startsWith("Trunc")));
    }
}
