package hive_bitmap.catalyst.keys;

import hive_bitmap.catalyst.keys.KeyExpressions.Key;
import hive_bitmap.catalyst.spark.Scala;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.Literal;

/** Expressions of a query over the columns that stand for keys. */
public final class ReplacedKeys {
    private ReplacedKeys() {}

    /**
     * Replaces the expressions of keys, and functions of keys, by those over the columns that stand for the keys.
     *
     * @param deriving keys of which only functions are replaced
     */
    public static Expression in(Expression expression, List<Key> keys, Collection<Key> deriving) {
        if (keys.isEmpty() && deriving.isEmpty()) return expression;
        return (Expression) expression.transformDown(Scala.replacing(node -> {
            if (node instanceof Attribute || node instanceof Literal) return null;
            Expression canonical = StoredFunctions.normalized(node).canonicalized();
            for (Key key : keys) if (key.value().equals(canonical)) return key.column();
            return Stream.concat(keys.stream(), deriving.stream()).map(key -> DerivedValues.of(node, key)).filter(Objects::nonNull)
                    .findFirst().orElse(null);
        }));
    }

    /**
     * Replaces keys in a conjunct. Spark adds NULL tests of columns to comparisons; such a test becomes a NULL test of a key that
     * is NULL for the same rows, so that no other index than that of the key is needed.
     */
    public static Expression inConjunct(Expression conjunct, List<Key> keys) {
        if (conjunct instanceof IsNotNull test && test.child() instanceof Attribute tested) {
            for (Key key : keys) if (key.isNullWith(tested)) return new IsNotNull(key.column());
        }
        return in(conjunct, keys, List.of());
    }

    /**
     * Returns the keys that expressions need: keys that occur in them, and keys of which they use functions.
     *
     * @param deriving the keys of which functions may be computed
     */
    public static List<Key> needed(List<Expression> expressions, List<Key> known, List<Key> deriving) {
        Set<Key> needed = new LinkedHashSet<>();
        for (Key key : known) if (expressions.stream().anyMatch(used -> uses(used, key))) needed.add(key);
        for (Expression expression : expressions) DerivedValues.addNeeded(expression, deriving, needed);
        return List.copyOf(needed);
    }

    /** Returns the expression for a row of which the key is needed, or only functions of the key. */
    public static Expression ofRow(Key key, boolean onlyFunctions) {
        return onlyFunctions ? DerivedValues.computable(key) : key.source();
    }

    /** Returns whether an expression contains the expression of a key. */
    private static boolean uses(Expression expression, Key key) {
        return expression.exists(Scala.predicate(node -> KeyExpressions.isKey(node, key)));
    }
}
