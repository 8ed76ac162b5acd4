package hive_bitmap.catalyst.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
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
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.expressions.StartsWith;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Converts a Catalyst condition to JSON. hive_bitmap/spark/catalyst/scans.py converts the JSON to a predicate.
 *
 * <pre>
 * ["and", tree..]  ["or", tree..]  ["not", tree]  ["constant", true | false | null]
 * ["compare", column, "=" | "<" | "<=" | ">" | ">=", value]  ["in", column, value..]
 * ["is null", column]  ["prefix", column, text]
 * ["expression", column, number, sql]      Spark has to evaluate it over the distinct keys; see {@link Allowlist}
 * ["unknown", sql, reason]                 all rows may match
 * ["implied", leaf]                        all rows that match satisfy the leaf, a "compare", "in", "prefix" or "expression"
 * </pre>
 *
 * A value is a JSON boolean, a number in a string (integers and decimals), a string, or ["date", days since 1970]. A
 * "compare" is written only if column and literal have the same type, and if an index compares this type as Spark does.
 */
public final class Conditions {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
    private static final int MAX_DEPTH = 200;

    /** The maximum number of values in a condition; looking up more takes longer than reading a table of moderate size. */
    public static final int MAX_VALUES = 20_000;

    private static final int YEAR_1 = -719162;
    private static final int YEAR_9999_END = 2932896;

    private final List<Attribute> columns;
    private final List<Expression> leaves;
    private final Set<Expression> implied;

    /**
     * Creates a converter. It adds expressions that Spark has to evaluate to {@code leaves}, where their positions are their
     * numbers. {@code implied} are parts of the conditions, by identity, that are necessary but not sufficient: they are TRUE for
     * more rows than the tests in the query.
     */
    public Conditions(List<Attribute> columns, List<Expression> leaves, Set<Expression> implied) {
        this.columns = columns;
        this.leaves = leaves;
        this.implied = implied;
    }

    /** Returns the conjuncts of a condition, from left to right. */
    public static List<Expression> conjuncts(Expression condition) {
        List<Expression> conjuncts = new ArrayList<>();
        List<Expression> waiting = new ArrayList<>(List.of(condition));
        while (!waiting.isEmpty()) {
            Expression part = waiting.remove(waiting.size() - 1);
            if (part instanceof And and) {
                waiting.add(and.right());
                waiting.add(and.left());
            } else {
                conjuncts.add(part);
            }
        }
        return conjuncts;
    }

    /**
     * Filters rows by these conjuncts, up to the first that refers to other columns than those of the rows. Later conjuncts are
     * left out, because they may raise an error for rows that this one excludes.
     */
    public static LogicalPlan filtered(LogicalPlan rows, List<Expression> conjuncts) {
        List<Attribute> columns = Scala.list(rows.output());
        Expression condition = null;
        for (Expression conjunct : conjuncts) {
            if (!isOver(conjunct, columns)) break;
            condition = condition == null ? conjunct : new And(condition, conjunct);
        }
        return condition == null ? rows : new Filter(condition, rows);
    }

    /** Returns whether an expression is deterministic, and refers to at least one of these columns and to nothing else. */
    public static boolean isOver(Expression expression, List<Attribute> columns) {
        if (!expression.deterministic() || expression.references().isEmpty() || isOpaque(expression)) return false;
        for (Attribute used : Scala.list(expression.references().toSeq())) {
            if (columns.stream().noneMatch(column -> column.exprId().equals(used.exprId()))) return false;
        }
        return true;
    }

    /** Replaces a column in a condition by another column. */
    public static Expression substitute(Expression condition, Attribute column, Attribute replacement) {
        return (Expression) condition.transform(Scala.replacing(
                node -> node instanceof Attribute used && used.exprId().equals(column.exprId()) ? replacement : null));
    }

    /** Returns the conjunction of these conditions as JSON. */
    public ArrayNode tree(List<Expression> conjuncts) {
        ArrayNode tree = node("and");
        for (Expression conjunct : conjuncts) tree.add(tree(conjunct, false, 0));
        return tree;
    }

    /**
     * Returns a condition, or its negation, as JSON. NOT is pushed down to the leaves, so that a leaf that Spark evaluates includes
     * it.
     */
    private ArrayNode tree(Expression condition, boolean negated, int depth) {
        if (depth > MAX_DEPTH) return unknown(condition, "nested too deep");
        if (values(condition) > MAX_VALUES) return unknown(condition, "it lists more than " + MAX_VALUES + " values");
        if (condition instanceof Not not) return tree(not.child(), !negated, depth + 1);
        if (condition instanceof And || condition instanceof Or) {
            ArrayNode tree = node(condition instanceof And == negated ? "or" : "and");
            for (Expression child : Scala.list(condition.children())) tree.add(tree(child, negated, depth + 1));
            return tree;
        }
        if (implied.contains(condition)) return negated ? unknown(condition, "more rows than these satisfy it") : implied(condition);
        ArrayNode leaf = leaf(condition);
        if (leaf != null) return negated ? node("not").add(leaf) : leaf;
        return expression(negated ? new Not(condition) : condition);
    }

    private ArrayNode implied(Expression condition) {
        ArrayNode leaf = leaf(condition);
        if (leaf == null) leaf = expression(condition);
        return leaf.get(0).asText().equals("unknown") ? leaf : node("implied").add(leaf);
    }

    /** Returns a condition as a leaf that is evaluated without Spark; null if only Spark can evaluate it. */
    private ArrayNode leaf(Expression condition) {
        if (condition instanceof Literal literal && literal.dataType() instanceof BooleanType) {
            return node("constant").add((Boolean) literal.value());
        }
        if (column(condition) != null && condition.dataType() instanceof BooleanType) {
            return node("compare").add(column(condition)).add("=").add(true);
        }
        if (condition instanceof IsNull test && column(test.child()) != null) {
            return node("is null").add(column(test.child()));
        }
        if (condition instanceof IsNotNull test && column(test.child()) != null) {
            return node("not").add(node("is null").add(column(test.child())));
        }
        if (condition instanceof BinaryComparison comparison) return comparison(comparison);
        if (condition instanceof In in) return in(in.value(), Scala.list(in.list()));
        if (condition instanceof InSet in) return in(in.child(), literals(in));
        if (condition instanceof StartsWith test) return prefix(test);
        return null;
    }

    private ArrayNode comparison(BinaryComparison comparison) {
        Expression left = comparison.left();
        Expression right = comparison.right();
        boolean swapped = column(left) == null;
        String name = column(swapped ? right : left);
        Expression other = swapped ? left : right;
        if (name == null || !(other instanceof Literal literal)) return null;
        String operator = operator(comparison, swapped);
        if (operator == null || literal.dataType() instanceof BooleanType && !operator.equals("=")) return null;
        if (!sameType(swapped ? right : left, literal)) return null;
        if (literal.value() == null) {
            return comparison instanceof EqualNullSafe ? node("is null").add(name) : node("constant").addNull();
        }
        ArrayNode tree = node("compare").add(name).add(operator);
        if (!addValue(tree, literal.value(), literal.dataType())) return null;
        if (!(comparison instanceof EqualNullSafe)) return tree;
        return node("and").add(node("not").add(node("is null").add(name))).add(tree);
    }

    private static String operator(BinaryComparison comparison, boolean swapped) {
        if (comparison instanceof EqualTo || comparison instanceof EqualNullSafe) return "=";
        if (comparison instanceof LessThan) return swapped ? ">" : "<";
        if (comparison instanceof LessThanOrEqual) return swapped ? ">=" : "<=";
        if (comparison instanceof GreaterThan) return swapped ? "<" : ">";
        if (comparison instanceof GreaterThanOrEqual) return swapped ? "<=" : ">=";
        return null;
    }

    private ArrayNode in(Expression tested, List<Expression> values) {
        String name = column(tested);
        if (name == null) return null;
        ArrayNode tree = node("in").add(name);
        boolean hasNull = false;
        for (Expression value : values) {
            if (!(value instanceof Literal literal) || !sameType(tested, literal)) return null;
            if (literal.value() == null) hasNull = true;
            else if (!addValue(tree, literal.value(), literal.dataType())) return null;
        }
        return hasNull ? node("or").add(tree).add(node("constant").addNull()) : tree;
    }

    /** Returns the number of values that an IN lists; 0 for any other expression. */
    private static int values(Expression condition) {
        if (condition instanceof In in) return Scala.size(in.list());
        return condition instanceof InSet in ? Scala.size(in.hset()) : 0;
    }

    private ArrayNode prefix(StartsWith test) {
        String name = column(test.left());
        if (name == null || !(test.right() instanceof Literal literal) || !sameType(test.left(), literal)) return null;
        ArrayNode tree = node("prefix").add(name);
        return literal.value() != null && addValue(tree, literal.value(), literal.dataType()) ? tree : null;
    }

    private static List<Expression> literals(InSet in) {
        List<Expression> literals = new ArrayList<>();
        scala.collection.Iterator<Object> values = in.hset().iterator();
        while (values.hasNext()) literals.add(new Literal(values.next(), in.child().dataType()));
        return literals;
    }

    /**
     * Returns a condition as a leaf that Spark evaluates over the distinct keys of its only column; as "unknown" if that is
     * impossible.
     */
    private ArrayNode expression(Expression condition) {
        if (condition.exists(Scala.predicate(node -> values(node) > MAX_VALUES))) {
            return unknown(condition, "it lists more than " + MAX_VALUES + " values");
        }
        String refusal = Allowlist.refusal(condition);
        if (refusal != null) return unknown(condition, refusal);
        List<Attribute> used = Scala.list(condition.references().toSeq());
        if (used.size() != 1) return unknown(condition, "it tests " + used.size() + " columns");
        String name = name(used.get(0));
        if (name == null) return unknown(condition, "it tests something that is not a column of the table");
        leaves.add(condition);
        return node("expression").add(name).add(leaves.size() - 1).add(Expressions.sql(condition));
    }

    /** Returns whether an expression contains a subquery, a Python function, or a function such as InputFileName. */
    public static boolean isOpaque(Expression expression) {
        return expression.exists(Scala.predicate(node ->
                node instanceof PlanExpression || node instanceof PythonUDF || isInputFile(node)));
    }

    /**
     * Returns whether an expression is InputFileName, InputFileBlockStart or InputFileBlockLength, which depend on Spark's splits.
     */
    public static boolean isInputFile(Expression expression) {
        return expression.getClass().getSimpleName().startsWith("InputFile");
    }

    private String name(Attribute used) {
        for (Attribute column : columns) {
            if (column.exprId().equals(used.exprId())) return column.name();
        }
        return null;
    }

    /**
     * Returns the name of a column of the relation; null for any other expression, and for a CHAR column, whose keys are padded.
     */
    private String column(Expression expression) {
        if (expression instanceof Attribute attribute && !Allowlist.isChar(attribute)) {
            return name(attribute);
        }
        return null;
    }

    private static boolean sameType(Expression column, Literal literal) {
        return column.dataType().equals(literal.dataType());
    }

    /** Adds the value of a literal; returns false if JSON cannot hold it. (Bytes that are not UTF-8 would change.) */
    private static boolean addValue(ArrayNode to, Object value, DataType type) {
        if (type instanceof BooleanType) to.add((Boolean) value);
        else if (type instanceof ByteType || type instanceof ShortType || type instanceof IntegerType || type instanceof LongType) {
            to.add(value.toString());
        } else if (type instanceof DecimalType) to.add(((Decimal) value).toJavaBigDecimal().toPlainString());
        else if (type.equals(StringType$.MODULE$) && ((UTF8String) value).isValid()) to.add(value.toString());
        else if (type instanceof DateType && (Integer) value >= YEAR_1 && (Integer) value <= YEAR_9999_END) {
            to.add(node("date").add((Integer) value));
        } else return false;
        return true;
    }

    private static ArrayNode unknown(Expression condition, String reason) {
        return node("unknown").add(Expressions.shown(condition)).add(reason);
    }

    private static ArrayNode node(String kind) {
        return JSON.arrayNode().add(kind);
    }
}
