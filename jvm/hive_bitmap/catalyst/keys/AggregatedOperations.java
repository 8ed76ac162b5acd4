package hive_bitmap.catalyst.keys;

import hive_bitmap.catalyst.spark.Expressions;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.UnaryMinus;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import scala.Option;

/** The allowlist of operations in expressions that indexes aggregate: +, -, * and CAST to a wider type, of integers and decimals. */
final class AggregatedOperations {
    private static final Set<String> OPERATIONS = Set.of("Add", "Subtract", "Multiply", "UnaryMinus");
    private static final Map<DataType, Integer> DIGITS = Map.of(
            DataTypes.ByteType, 3, DataTypes.ShortType, 5, DataTypes.IntegerType, 10, DataTypes.LongType, 19);
    private static final Set<String> MODES = Set.of("LEGACY", "ANSI");

    private AggregatedOperations() {}

    /** Returns why an expression cannot be aggregated; null if it can. */
    static String refusal(Expression expression) {
        for (Attribute column : Scala.list(expression.references().toSeq())) {
            if (!isNumber(column.dataType())) {
                return "column " + column.name() + " is " + column.dataType().simpleString() + ", and the columns must be integers or decimals";
            }
        }
        Option<Expression> unlisted = expression.find(Scala.predicate(node -> !isListed(node)));
        if (unlisted.isEmpty()) return null;
        return Expressions.sql(unlisted.get()) + " is not among +, -, *, CAST to a wider integer or decimal, and literals of such types";
    }

    private static boolean isListed(Expression expression) {
        if (expression instanceof AttributeReference || expression instanceof Literal) return isNumber(expression.dataType());
        if (expression instanceof Cast cast) {
            return isWider(cast.child().dataType(), cast.dataType()) && MODES.contains(cast.evalMode().toString());
        }
        String name = StoredFunctions.name(expression);
        return OPERATIONS.contains(name) && (name.equals("UnaryMinus") || MODES.contains(mode(expression)));
    }

    /** Returns the mode of an operation with two operands, which its last argument is or begins with. */
    private static String mode(Expression operation) {
        String context = String.valueOf(operation.productElement(operation.productArity() - 1));
        return context.replaceFirst("^NumericEvalContext\\((\\w+),.*", "$1");
    }

    /** Returns whether an expression fails for some values of its columns. If not, a value that overflows wraps or is NULL. */
    static boolean canFail(Expression source) {
        return !failing(source).isEmpty();
    }

    /** Returns the operations of an expression that fail for some values of their operands. */
    static List<Expression> failing(Expression source) {
        List<Expression> found = new ArrayList<>();
        for (Expression operand : Scala.list(source.children())) found.addAll(failing(operand));
        boolean isFailing = switch (StoredFunctions.name(source)) {
            case "UnaryMinus" -> ((UnaryMinus) source).failOnError();
            case "Add", "Subtract", "Multiply" -> !mode(source).equals("LEGACY");
            default -> false;
        };
        if (isFailing) found.add(source);
        return found;
    }

    static boolean isNumber(DataType type) {
        return StoredFunctions.isInteger(type) || type instanceof DecimalType decimal && decimal.scale() >= 0;
    }

    /** Returns whether a type holds each value of another type. */
    private static boolean isWider(DataType from, DataType to) {
        if (!isNumber(from) || !isNumber(to)) return false;
        if (StoredFunctions.isInteger(to)) return StoredFunctions.isInteger(from) && from.defaultSize() <= to.defaultSize();
        if (!(to instanceof DecimalType wide)) return false;
        DecimalType narrow = from instanceof DecimalType decimal ? decimal : new DecimalType(DIGITS.get(from), 0);
        return narrow.scale() <= wide.scale() && narrow.precision() - narrow.scale() <= wide.precision() - wide.scale();
    }
}
