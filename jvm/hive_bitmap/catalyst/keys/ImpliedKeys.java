package hive_bitmap.catalyst.keys;

import hive_bitmap.catalyst.keys.KeyExpressions.Key;
import hive_bitmap.catalyst.spark.Conditions;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.StartsWith;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A condition in which tests of columns are replaced by tests of keys that are computed from the columns. The test of a key is
 * either equivalent to that of its column, or only implied by it: then it is TRUE for all rows for which the test of the column is
 * TRUE, and perhaps for more.
 */
public final class ImpliedKeys {
    private static final int MAX_DEPTH = 200;

    /** The condition, with tests of keys. */
    public final List<Expression> conjuncts = new ArrayList<>();
    /** The tests in the condition that are only implied, by identity. None of them is below a NOT. */
    public final Set<Expression> implied = Collections.newSetFromMap(new IdentityHashMap<>());
    /** The keys that replace columns. */
    public final Set<Key> keys = new LinkedHashSet<>();

    private final Map<ExprId, List<Key>> keysOfColumn = new HashMap<>();

    private ImpliedKeys() {}

    /**
     * Replaces tests of columns in conjuncts.
     *
     * @param known the keys that may replace their columns, each of a single column
     * @param preferred keys that the query needs in any case
     */
    public static ImpliedKeys of(List<Expression> conjuncts, List<Key> known, Collection<Key> preferred) {
        ImpliedKeys result = new ImpliedKeys();
        if (known.isEmpty()) {
            result.conjuncts.addAll(conjuncts);
            return result;
        }
        Map<ExprId, List<Expression>> tests = new HashMap<>();
        for (Expression conjunct : conjuncts) addTests(conjunct, tests, 0);
        tests.forEach((column, ofColumn) -> {
            List<Key> keys = known.stream().filter(key -> key.tested().exprId().equals(column)).toList();
            result.keysOfColumn.put(column, inOrder(keys, ofColumn, preferred));
        });
        List<Expression> others = conjuncts.stream().filter(conjunct -> !(conjunct instanceof IsNotNull)).toList();
        for (Expression conjunct : others) result.conjuncts.add(result.replaced(conjunct, false, 0));
        Set<Key> used = Set.copyOf(result.keys);
        for (Expression conjunct : conjuncts) {
            if (conjunct instanceof IsNotNull test) result.conjuncts.add(result.replacedNullTest(test, used, others));
        }
        return result;
    }

    /**
     * Rewrites a NULL test of a column, which Spark adds to each comparison, as one of a key: a key that replaces the column
     * elsewhere, or any key if the query does not test the column elsewhere.
     */
    private Expression replacedNullTest(IsNotNull test, Set<Key> used, List<Expression> others) {
        if (!(test.child() instanceof Attribute tested)) return test;
        boolean isAlone = others.stream().noneMatch(other -> other.references().contains(tested));
        for (Key key : keysOfColumn.getOrDefault(tested.exprId(), List.of())) {
            if (key.isNullWith(tested) && (isAlone || used.contains(key))) {
                keys.add(key);
                return new IsNotNull(key.column());
            }
        }
        return test;
    }

    /**
     * Orders keys of a column by preference. Keys whose tests are equivalent to all tests of the column come first, the coarsest
     * first. The others follow, the finest first.
     */
    private static List<Key> inOrder(List<Key> keys, List<Expression> tests, Collection<Key> preferred) {
        Set<Key> deciding = new HashSet<>();
        for (Key key : keys) {
            boolean decides = tests.stream().allMatch(test -> {
                Consequence consequence = Consequence.of(test, key);
                return consequence != null && consequence.isEqual();
            });
            if (decides) deciding.add(key);
        }
        List<Key> ordered = new ArrayList<>(keys);
        ordered.sort(Comparator.<Key, Boolean>comparing(key -> !deciding.contains(key))
                .thenComparing(key -> !(deciding.contains(key) && preferred.contains(key)))
                .thenComparing(key -> deciding.contains(key) ? -key.function().coarseness : key.function().coarseness));
        return ordered;
    }

    private static void addTests(Expression condition, Map<ExprId, List<Expression>> tests, int depth) {
        Attribute tested = tested(condition);
        if (tested != null) tests.computeIfAbsent(tested.exprId(), column -> new ArrayList<>());
        if (tested != null && !(condition instanceof IsNotNull)) tests.get(tested.exprId()).add(condition);
        if (depth > MAX_DEPTH || !(condition instanceof And || condition instanceof Or || condition instanceof Not)) return;
        for (Expression child : Scala.list(condition.children())) addTests(child, tests, depth + 1);
    }

    /** Returns a condition, or its negation, with tests of keys. */
    private Expression replaced(Expression condition, boolean negated, int depth) {
        if (depth <= MAX_DEPTH && condition instanceof Not not) return replaced(not.child(), !negated, depth + 1);
        if (depth <= MAX_DEPTH && (condition instanceof And || condition instanceof Or)) {
            Expression left = replaced(Scala.list(condition.children()).get(0), negated, depth + 1);
            Expression right = replaced(Scala.list(condition.children()).get(1), negated, depth + 1);
            return condition instanceof And == negated ? new Or(left, right) : new And(left, right);
        }
        Attribute tested = tested(condition);
        for (Key key : tested == null ? List.<Key>of() : keysOfColumn.getOrDefault(tested.exprId(), List.of())) {
            Consequence consequence = Consequence.of(condition, key);
            if (consequence != null && consequence.isEqual()) {
                keys.add(key);
                return negated ? new Not(consequence.condition()) : consequence.condition();
            }
            if (negated) consequence = inverse(condition) == null ? null : Consequence.of(inverse(condition), key);
            if (consequence != null) {
                keys.add(key);
                implied.add(consequence.condition());
                return consequence.condition();
            }
        }
        return negated ? new Not(condition) : condition;
    }

    /** Returns the column that a condition compares with literals, or tests for NULL; null for any other condition. */
    private static Attribute tested(Expression condition) {
        if (condition instanceof BinaryComparison comparison) {
            if (comparison.left() instanceof Attribute column && isValue(comparison.right(), column)) return column;
            return comparison.right() instanceof Attribute column && isValue(comparison.left(), column) ? column : null;
        }
        if (condition instanceof In in) {
            return in.value() instanceof Attribute column && Scala.list(in.list()).stream().allMatch(
                    value -> value instanceof Literal && value.dataType().equals(column.dataType())) ? column : null;
        }
        if (condition instanceof InSet in) return in.child() instanceof Attribute column ? column : null;
        if (condition instanceof StartsWith test) {
            return test.left() instanceof Attribute column && isValue(test.right(), column) ? column : null;
        }
        if (condition instanceof IsNull || condition instanceof IsNotNull) {
            return Scala.list(condition.children()).get(0) instanceof Attribute column ? column : null;
        }
        return null;
    }

    /** Returns whether an expression is a literal of a column's type, other than NULL. */
    private static boolean isValue(Expression expression, Attribute column) {
        return expression instanceof Literal literal && literal.value() != null && literal.dataType().equals(column.dataType());
    }

    /** Returns the comparison that is TRUE where this one is FALSE, and NULL where this one is NULL; null if there is none. */
    private static Expression inverse(Expression condition) {
        if (!(condition instanceof BinaryComparison comparison)) return null;
        if (comparison instanceof LessThan) return new GreaterThanOrEqual(comparison.left(), comparison.right());
        if (comparison instanceof LessThanOrEqual) return new GreaterThan(comparison.left(), comparison.right());
        if (comparison instanceof GreaterThan) return new LessThanOrEqual(comparison.left(), comparison.right());
        if (comparison instanceof GreaterThanOrEqual) return new LessThan(comparison.left(), comparison.right());
        return null;
    }

    /**
     * A test of a key that follows from the test of its column.
     *
     * @param condition the test of the key
     * @param isEqual whether it is TRUE, FALSE and NULL for the same rows; otherwise it is only TRUE where the test of the column
     *     is
     */
    private record Consequence(Expression condition, boolean isEqual) {
        /** Returns the test of a key that follows from a test of its column; null if none does. */
        static Consequence of(Expression test, Key key) {
            if (test instanceof IsNull) return key.isNullWith(key.tested()) ? new Consequence(new IsNull(key.column()), true) : null;
            if (test instanceof IsNotNull) return key.isNullWith(key.tested()) ? new Consequence(new IsNotNull(key.column()), true) : null;
            if (test instanceof In in) return ofAny(Scala.list(in.list()).stream().map(value -> ((Literal) value).value()).toList(), key);
            if (test instanceof InSet in) return ofAny(values(in), key);
            if (test instanceof StartsWith prefix) return ofPrefix((UTF8String) ((Literal) prefix.right()).value(), key);
            BinaryComparison comparison = (BinaryComparison) test;
            boolean swapped = comparison.left() instanceof Literal;
            Object value = ((Literal) (swapped ? comparison.left() : comparison.right())).value();
            Object keyOfValue = key.function().of(value);
            if (keyOfValue == null) return null;
            Literal literal = new Literal(keyOfValue, key.column().dataType());
            KeyFunction function = key.function();
            if (comparison instanceof EqualTo || comparison instanceof EqualNullSafe) {
                boolean isOnly = function.isFirst(value) && function.isLast(value);
                return isOnly && comparison instanceof EqualNullSafe
                        ? new Consequence(new EqualNullSafe(key.column(), literal), true)
                        : new Consequence(new EqualTo(key.column(), literal), isOnly);
            }
            if (!function.isOrderedAt(value)) return null;
            boolean isLess = comparison instanceof LessThan || comparison instanceof LessThanOrEqual;
            if (!isLess && !(comparison instanceof GreaterThan || comparison instanceof GreaterThanOrEqual)) return null;
            boolean includes = comparison instanceof LessThanOrEqual || comparison instanceof GreaterThanOrEqual;
            return ordered(isLess != swapped, includes, value, literal, key);
        }

        private static Consequence ordered(boolean isLess, boolean includes, Object value, Literal literal, Key key) {
            // `c < v` and `c >= v` separate v from the values before it, `c <= v` and `c > v` from those after it
            boolean isEqual = isLess == includes ? key.function().isLast(value) : key.function().isFirst(value);
            if (isLess) {
                Expression test = isEqual && !includes ? new LessThan(key.column(), literal) : new LessThanOrEqual(key.column(), literal);
                return new Consequence(test, isEqual);
            }
            Expression test = isEqual && !includes ? new GreaterThan(key.column(), literal) : new GreaterThanOrEqual(key.column(), literal);
            return new Consequence(test, isEqual);
        }

        private static List<Object> values(InSet in) {
            List<Object> values = new ArrayList<>();
            scala.collection.Iterator<Object> all = in.hset().iterator();
            while (all.hasNext()) values.add(all.next());
            return values;
        }

        private static Consequence ofAny(List<Object> values, Key key) {
            if (values.size() > Conditions.MAX_VALUES) return null;
            Set<Object> keys = new HashSet<>();
            boolean isEqual = true;
            for (Object value : values) {
                if (value == null) {
                    isEqual = false; // the test is NULL for other values
                    continue;
                }
                Object keyOfValue = key.function().of(value);
                if (keyOfValue == null) return null;
                keys.add(keyOfValue);
                isEqual = isEqual && key.function().isFirst(value) && key.function().isLast(value);
            }
            return keys.isEmpty() ? null : new Consequence(new InSet(key.column(), Scala.set(keys)), isEqual);
        }

        private static Consequence ofPrefix(UTF8String prefix, Key key) {
            if (!key.function().isPrefix() || !prefix.isValid()) return null;
            Object beginning = key.function().of(prefix);
            Literal literal = new Literal(beginning, key.column().dataType());
            return prefix.equals(beginning)
                    ? new Consequence(new StartsWith(key.column(), literal), true) : new Consequence(new EqualTo(key.column(), literal), false);
        }
    }
}
