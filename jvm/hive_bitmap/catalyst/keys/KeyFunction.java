package hive_bitmap.catalyst.keys;

import hive_bitmap.catalyst.spark.Expressions;
import hive_bitmap.catalyst.spark.Scala;
import java.time.ZoneId;
import java.time.zone.ZoneOffsetTransition;
import java.time.zone.ZoneOffsetTransitionRule;
import java.time.zone.ZoneRules;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.TimeZoneAwareExpression;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A key as a function of its only column: the values that Spark computes, and how they follow the order of the column.
 *
 * <p>In an index, a key other than a hash is NULL exactly where the column is NULL: a file with any other row stays unindexed.
 * Files with keys outside the years 1 to 9999 stay unindexed, too. So a function keeps the order even if it overflows near the end
 * of its type, like {@code trunc} of the first of all dates.
 *
 * <p>The order of a function of timestamps depends on a clock. Between two steps of the clock, local time goes on evenly. So a key
 * at the start of a unit that lies after the last step is the instant itself (or its day, or year), and these keys rise. Before the
 * first such unit, the key is that of the instant of the step. So the order is kept if at each step the key of the instant before
 * is not greater than the key of the step, and if the latter, where it is an instant, is not after the step. Both are computed for
 * all steps. If the last step without this property is in the past, the order holds for keys that are greater than any key before.
 */
final class KeyFunction {
    private static final int CYCLE = 400; // years after which the calendar, and so the rules of a clock, repeat
    private static final int FIRST_DAY = -719162;
    private static final int LAST_DAY = 2932896;
    private static final long MICROS_OF_DAY = 86_400_000_000L;
    private static final int COARSEST = 1000;

    private final Expression function; // over a row of the column
    private final DataType from;
    private final DataType to;
    private final int characters; // the length of a prefix; -1 for any other function
    /** How coarse the key is, for comparisons; smaller for a finer key. */
    final int coarseness;
    private final Map<Expression, Boolean> agreeing = new ConcurrentHashMap<>(); // what agreesAtSteps has found
    private boolean isOrdered;
    private Comparable<Object> unordered; // the order holds for keys greater than this; null if it holds for all

    private KeyFunction(Expression source, Attribute column) {
        function = Expressions.bound(source, List.of(column));
        from = column.dataType();
        to = source.dataType();
        characters = StoredFunctions.name(source).equals("Substring") ? Expressions.integer(Scala.list(source.children()).get(2)) : -1;
        coarseness = coarseness(source);
        isOrdered = keepsOrder(source);
        ZoneRules clock = isOrdered ? clock(source) : null;
        if (clock != null) compareAtSteps(clock);
    }

    /** Returns the function of a key; null if the key has several columns. */
    static KeyFunction of(Expression source) {
        List<Attribute> columns = Scala.list(source.references().toSeq());
        return columns.size() == 1 ? new KeyFunction(source, columns.get(0)) : null;
    }

    /** Returns the key of a value; both are in Spark's internal form. Null if the key cannot be computed. */
    @SuppressWarnings("unchecked")
    Comparable<Object> of(Object value) {
        try {
            return (Comparable<Object>) function.eval(row(value));
        } catch (RuntimeException e) {
            return null; // such as an overflow
        }
    }

    private static InternalRow row(Object value) {
        return new GenericInternalRow(new Object[] {value});
    }

    /** Returns whether smaller values have no greater key, and greater values no smaller key. */
    boolean isOrderedAt(Object value) {
        if (!isOrdered || !isUsual(value)) return false;
        Comparable<Object> key = of(value);
        return key != null && (unordered == null || key.compareTo(unordered) > 0);
    }

    /** Returns whether all smaller values have smaller keys. */
    boolean isFirst(Object value) {
        if (!isOrderedAt(value)) return false;
        if (characters >= 0) return of(value).equals(value); // a prefix is no greater than its text
        return isLess(neighbour(value, -1), value);
    }

    /** Returns whether all greater values have greater keys. */
    boolean isLast(Object value) {
        if (!isOrderedAt(value)) return false;
        if (characters >= 0) return value instanceof UTF8String text && text.numChars() < characters && of(value).equals(value);
        return isLess(value, neighbour(value, 1));
    }

    /** Returns whether the key is the beginning of a text. */
    boolean isPrefix() {
        return isOrdered && characters >= 0;
    }

    private boolean isLess(Object value, Object other) {
        if (value == null || other == null) return false;
        Comparable<Object> key = of(value);
        Comparable<Object> keyOfOther = of(other);
        return key != null && keyOfOther != null && key.compareTo(keyOfOther) < 0;
    }

    /** Returns the value next to another one, of an integer type, a date or a timestamp; null if there is none. */
    private Object neighbour(Object value, int distance) {
        long next = ((Number) value).longValue() + distance;
        if (distance > 0 == next < ((Number) value).longValue()) return null;
        if (from instanceof ByteType) return next == (byte) next ? (Object) (byte) next : null;
        if (from instanceof ShortType) return next == (short) next ? (Object) (short) next : null;
        if (from instanceof IntegerType || from instanceof DateType) return next == (int) next ? (Object) (int) next : null;
        return next;
    }

    /** Returns whether a value is a valid text, or a day or an instant of the years 1 to 9999. */
    private boolean isUsual(Object value) {
        if (value instanceof UTF8String text) return text.isValid();
        long day = from instanceof DateType ? (Integer) value : StoredFunctions.isTime(from) ? Math.floorDiv((Long) value, MICROS_OF_DAY) : 0;
        return day > FIRST_DAY && day < LAST_DAY;
    }

    /**
     * Returns whether an expression is one of the listed functions of a column. Each of them keeps the order between the steps of a
     * clock.
     */
    private static boolean keepsOrder(Expression source) {
        List<Expression> children = Scala.list(source.children());
        switch (StoredFunctions.name(source)) {
            case "TruncTimestamp":
                Expression time = children.get(1);
                // local time is converted to instants of another order where a clock steps
                return time instanceof Attribute && time.dataType() instanceof TimestampType
                        || isOfColumn(time, TimestampNTZType.class) && clock(source) == null;
            case "Substring":
                Integer start = Expressions.integer(children.get(1));
                return children.get(0) instanceof Attribute && children.get(0).dataType().equals(StringType$.MODULE$)
                        && (start == 0 || start == 1) && Expressions.integer(children.get(2)) >= 0;
            case "Year", "TruncDate":
                return isDay(children.get(0));
            case "Cast":
                return isDay(source) || children.get(0) instanceof Attribute column && StoredFunctions.isInteger(column.dataType())
                        && StoredFunctions.cannotFail((Cast) source);
            default:
                return false;
        }
    }

    /** Returns whether an expression is a date, or the date of a timestamp. */
    private static boolean isDay(Expression expression) {
        if (!(expression.dataType() instanceof DateType)) return false;
        return expression instanceof Attribute || isOfColumn(expression, TimestampType.class) || isOfColumn(expression, TimestampNTZType.class);
    }

    private static boolean isOfColumn(Expression expression, Class<? extends DataType> type) {
        return expression instanceof Cast cast && cast.child() instanceof Attribute column && type.isInstance(column.dataType());
    }

    /** Returns the rules of the clock that a key depends on; null if it depends on none, or on one that never steps. */
    private static ZoneRules clock(Expression source) {
        for (Expression node : Scala.list(source.collect(Scala.replacing(node -> StoredFunctions.dependsOnZone(node) ? node : null)))) {
            ZoneId zone = DateTimeUtils.getZoneId(((TimeZoneAwareExpression) node).timeZoneId().get());
            if (!zone.getRules().isFixedOffset()) return zone.getRules();
        }
        return null;
    }

    private void compareAtSteps(ZoneRules clock) {
        Comparable<Object> highest = null;
        for (long step : steps(clock)) {
            for (long instant : new long[] {step - 1, step}) {
                Comparable<Object> key = of(instant);
                if (key == null) isOrdered = false;
                else if (highest == null || key.compareTo(highest) > 0) highest = key;
            }
            if (!keepsOrder(step)) unordered = highest;
        }
        isOrdered = isOrdered && laterSteps(clock).stream().allMatch(this::keepsOrder);
    }

    /**
     * Returns whether another function of the column has, at each step of the clock, the same value as for the key of the step.
     *
     * @param other the function, over {@code column}
     */
    boolean agreesAtSteps(Expression other, Attribute column) {
        Expression bound = Expressions.bound(other, List.of(column));
        return agreeing.computeIfAbsent(bound.canonicalized(), canonical -> {
            ZoneRules clock = clock(bound);
            if (clock == null) return true;
            List<Long> steps = new ArrayList<>(steps(clock));
            steps.addAll(laterSteps(clock));
            return steps.stream().allMatch(step -> {
                Object key = of(step);
                return key != null && bound.eval(row(key)).equals(bound.eval(row(step)));
            });
        });
    }

    /** Returns the steps of a clock that its rules list. */
    private static List<Long> steps(ZoneRules clock) {
        return clock.getTransitions().stream().map(KeyFunction::micros).toList();
    }

    /** Returns the steps of a clock that its rules repeat each year, for as many years as the calendar takes to repeat. */
    private static List<Long> laterSteps(ZoneRules clock) {
        List<ZoneOffsetTransition> listed = clock.getTransitions();
        int first = listed.isEmpty() ? 1 : listed.get(listed.size() - 1).getDateTimeBefore().getYear();
        List<Long> steps = new ArrayList<>();
        for (int year = first; year <= first + CYCLE; year++) {
            for (ZoneOffsetTransitionRule rule : clock.getTransitionRules()) steps.add(micros(rule.createTransition(year)));
        }
        return steps;
    }

    /** Returns whether the order is kept at the instant of a step. */
    private boolean keepsOrder(long step) {
        Comparable<Object> before = of(step - 1);
        Comparable<Object> after = of(step);
        return before != null && after != null && before.compareTo(after) <= 0 && !(to instanceof TimestampType && (Long) (Object) after > step);
    }

    private static long micros(ZoneOffsetTransition step) {
        return DateTimeUtils.instantToMicros(step.getInstant());
    }

    private static int coarseness(Expression source) {
        List<Expression> children = Scala.list(source.children());
        switch (StoredFunctions.name(source)) {
            case "XxHash64", "Murmur3Hash":
                return 0;
            case "Substring":
                return COARSEST / 2 - Math.max(0, Math.min(COARSEST / 2, Expressions.integer(children.get(2))));
            case "TruncTimestamp":
                return StoredFunctions.level(children.get(0).toString());
            case "TruncDate":
                return StoredFunctions.level(children.get(1).toString());
            case "Year":
                return StoredFunctions.level("YEAR");
            case "Cast":
                return source.dataType() instanceof DateType ? StoredFunctions.level("DAY") : 0;
            default:
                return COARSEST;
        }
    }
}
