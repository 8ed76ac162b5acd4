package hive_bitmap.catalyst.keys;

import hive_bitmap.catalyst.keys.KeyExpressions.Key;
import hive_bitmap.catalyst.spark.Expressions;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.TimeZoneAwareExpression;
import org.apache.spark.sql.catalyst.expressions.TryEval;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.TimestampType;

/**
 * Functions that have the same value for a key as for its argument: the day of a timestamp is that of its hour, and the first two
 * characters of a text are those of its first seven.
 *
 * <p>A key at the start of a unit of time has the local time and the offset of its argument with smaller parts left out, unless the
 * clock has stepped since that start. All arguments from a step to the end of the unit have the same key and, for the listed
 * functions, the same value. So it is enough to compare the value of the step and that of its key ({@link KeyFunction#agreesAtSteps}).
 */
final class DerivedValues {
    private static final int SECOND = StoredFunctions.level("SECOND");
    private static final int MINUTE = StoredFunctions.level("MINUTE");
    private static final int HOUR = StoredFunctions.level("HOUR");
    private static final int DAY = StoredFunctions.level("DAY");
    private static final int MONTH = StoredFunctions.level("MONTH");
    private static final int QUARTER = StoredFunctions.level("QUARTER");
    private static final int YEAR = StoredFunctions.level("YEAR");

    private DerivedValues() {}

    /** Returns an expression as a function of a key; null if it is not one. */
    static Expression of(Expression node, Key key) {
        Expression argument = argument(node);
        Expression ofKey = key.hasOneColumn() ? argument(key.source()) : null;
        if (argument == null || ofKey == null || !StoredFunctions.canStore(node)) return null;
        if (!StoredFunctions.normalized(argument).canonicalized().equals(ofKey.canonicalized()) || !isDecided(node, key)) return null;
        List<Expression> children = new ArrayList<>(Scala.list(node.children()));
        children.replaceAll(child -> child == argument ? key.column() : child);
        return (Expression) node.withNewChildren(Scala.seq(children));
    }

    /**
     * Adds the keys that an expression needs so that all parts of it that are functions of keys can be computed.
     *
     * @param known the keys that may be added
     * @param needed the keys that are needed in any case; a part that is one of them, or a function of one, needs no other
     */
    static void addNeeded(Expression node, Collection<Key> known, Set<Key> needed) {
        if (node instanceof Attribute || node instanceof Literal) return;
        if (needed.stream().anyMatch(key -> KeyExpressions.isKey(node, key) || of(node, key) != null)) return;
        Key coarsest = known.stream().filter(key -> of(node, key) != null)
                .max(Comparator.comparingInt(key -> key.function().coarseness)).orElse(null);
        if (coarsest != null) needed.add(coarsest);
        else Scala.list(node.children()).forEach(child -> addNeeded(child, known, needed));
    }

    /**
     * Returns the expression of a key for rows of which only functions of the key are needed. Where the key fails, its argument, of
     * the same type and with the same values of these functions, stands for it.
     */
    static Expression computable(Key key) {
        Expression argument = argument(key.source());
        if (argument == null || !argument.dataType().equals(key.source().dataType())) return key.source();
        return new Coalesce(Scala.seq(List.of(new TryEval(key.source()), argument)));
    }

    /** Returns the only argument of a function that is not a constant; null if the function is not listed here. */
    private static Expression argument(Expression node) {
        return switch (StoredFunctions.name(node)) {
            case "TruncTimestamp" -> Scala.list(node.children()).get(1);
            case "TruncDate", "Substring", "Year", "Quarter", "Month", "Hour", "Minute", "Second" -> Scala.list(node.children()).get(0);
            case "Cast" -> node.dataType() instanceof DateType ? ((Cast) node).child() : null;
            default -> null;
        };
    }

    private static boolean isDecided(Expression node, Key key) {
        List<Expression> ofKey = Scala.list(key.source().children());
        return switch (StoredFunctions.name(key.source())) {
            case "Substring" -> isWithin(node, Expressions.integer(ofKey.get(1)), Expressions.integer(ofKey.get(2)));
            case "TruncDate" -> StoredFunctions.level(ofKey.get(1).toString()) >= MONTH
                    && StoredFunctions.level(ofKey.get(1).toString()) <= coarsestUnit(node);
            case "TruncTimestamp" -> {
                int unit = StoredFunctions.level(ofKey.get(0).toString());
                yield ofKey.get(1) instanceof Attribute time && time.dataType() instanceof TimestampType
                        && unit <= DAY && unit <= coarsestUnit(node) && hasZoneOf(node, key.source())
                        && key.function().agreesAtSteps(StoredFunctions.normalized(node), time);
            }
            default -> false;
        };
    }

    /** Returns whether an expression is a part of the characters from {@code start}, which is 0 or 1, up to a number. */
    private static boolean isWithin(Expression node, int start, int length) {
        if (!StoredFunctions.name(node).equals("Substring") || start < 0 || start > 1) return false;
        int first = Expressions.integer(Scala.list(node.children()).get(1));
        int characters = Expressions.integer(Scala.list(node.children()).get(2));
        return first >= 0 && characters >= 0 && Math.max(first, 1) - 1L + characters <= length;
    }

    /** Returns the coarsest unit of which the start decides the value of a function; -1 if there is none. */
    private static int coarsestUnit(Expression node) {
        List<Expression> children = Scala.list(node.children());
        return switch (StoredFunctions.name(node)) {
            case "TruncTimestamp" -> unitWithin(StoredFunctions.level(children.get(0).toString()));
            case "TruncDate" -> unitWithin(StoredFunctions.level(children.get(1).toString()));
            case "Year" -> YEAR;
            case "Quarter" -> QUARTER;
            case "Month" -> MONTH;
            case "Cast" -> DAY;
            case "Hour" -> HOUR;
            case "Minute" -> MINUTE;
            case "Second" -> SECOND;
            default -> -1;
        };
    }

    /** Returns the coarsest unit that divides a unit: a week consists of days, but a month does not consist of weeks. */
    private static int unitWithin(int unit) {
        return unit > DAY && unit < MONTH ? DAY : unit;
    }

    private static boolean hasZoneOf(Expression node, Expression key) {
        return ((TimeZoneAwareExpression) node).timeZoneId().equals(((TimeZoneAwareExpression) key).timeZoneId());
    }
}
