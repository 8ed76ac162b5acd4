package hive_bitmap.catalyst.keys;

import hive_bitmap.catalyst.spark.Expressions;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.internal.SQLConf;

/** Finds the expressions of a query that could be keys of an index, for advice. */
public final class PossibleKeys {
    private final Map<ExprId, Expression> byColumn = new LinkedHashMap<>();
    private final Set<ExprId> otherwise = new HashSet<>();
    private final String zone = SQLConf.get().sessionLocalTimeZone();

    private PossibleKeys() {}

    /**
     * Returns for each column the expression by which a query uses the column, unless the query also uses it in another way. The
     * name of a key is the SQL text of its expression.
     *
     * @param used the expressions of the query
     */
    public static List<KeyExpressions.Key> of(List<Expression> used) {
        PossibleKeys possible = new PossibleKeys();
        used.forEach(possible::visit);
        List<KeyExpressions.Key> keys = new ArrayList<>();
        possible.byColumn.forEach((column, expression) -> {
            if (possible.otherwise.contains(column)) return;
            String sql = KeyExpressions.canonical(expression);
            keys.add(new KeyExpressions.Key(
                    expression.canonicalized(), Expressions.attribute(sql, expression.dataType(), true), expression, null));
        });
        return keys;
    }

    private void visit(Expression node) {
        if (node instanceof IsNotNull test && test.child() instanceof Attribute) return; // Spark infers it from other tests
        if (node instanceof Attribute column) {
            otherwise.add(column.exprId());
            return;
        }
        Expression normalized = isPossible(node) ? StoredFunctions.normalized(node) : null;
        if (normalized == null) {
            Scala.list(node.children()).forEach(this::visit);
            return;
        }
        ExprId column = Scala.list(normalized.references().toSeq()).get(0).exprId();
        Expression other = byColumn.putIfAbsent(column, normalized);
        if (other != null && !other.canonicalized().equals(normalized.canonicalized())) otherwise.add(column);
    }

    private boolean isPossible(Expression node) {
        if (node.references().size() != 1 || !StoredFunctions.isKey(node.dataType()) || !StoredFunctions.canStore(node)) return false;
        return !node.exists(Scala.predicate(part -> StoredFunctions.dependsOnZone(part) && !KeyExpressions.hasZone(part, zone)));
    }
}
