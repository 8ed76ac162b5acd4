package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.python.PythonRequest;
import hive_bitmap.catalyst.spark.Scala;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.Literal;

/**
 * The shape of a scan: what is planned for it, without the values of literals. Scans of the same shape take about as long to plan.
 *
 * @param table the name of the table
 * @param version a hash of the table's definition
 * @param text a hash of the scan's conditions, and of the aggregation above it
 * @param limited whether a limit takes the first rows or groups
 * @param filters the number of possible runtime filters
 * @param settings the version of the session's settings
 */
record Shape(String table, int version, int text, boolean limited, int filters, String settings) {
    static Shape of(Scan scan) {
        StringBuilder text = new StringBuilder();
        for (Expression expression : scan.conjuncts) write(expression, text);
        if (scan.aggregate != null) {
            for (Expression expression : Scala.list(scan.aggregate.expressions())) write(expression, text.append(';'));
        }
        return new Shape(
                scan.table.qualifiedName(), scan.table.hashCode(), text.toString().hashCode(), scan.limit != null || scan.top != null || scan.first != null, scan.runtimeFilters.size(),
                PythonRequest.settingsVersion());
    }

    private static void write(Expression expression, StringBuilder text) {
        if (expression instanceof Literal literal) {
            text.append(literal.dataType().typeName()).append(' ');
            return;
        }
        text.append(expression instanceof Attribute column ? column.name() : expression.getClass().getSimpleName()).append('(');
        List<Expression> children = Scala.list(expression.children());
        for (Expression child : expression instanceof In ? children.subList(0, 1) : children) write(child, text);
        text.append(')');
    }
}
