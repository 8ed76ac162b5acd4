package hive_bitmap.catalyst.observing;

import hive_bitmap.catalyst.spark.Conditions;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.StartsWith;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DateType;

/** The tests of columns in the conjuncts of a condition: for each column the strictest one. */
final class ColumnTests {
    private static final int MAX_COLUMNS = 16;
    private static final int MAX_SAMPLES = 4;
    private static final int MAX_SAMPLE_CHARACTERS = 64;

    private final Map<String, ColumnTest> byColumn = new TreeMap<>();
    private final Map<String, Set<String>> samples = new TreeMap<>();
    private final boolean keepsValues;

    /** Collects the tests. {@code keepsValues} says whether to keep some values that columns are compared with. */
    ColumnTests(List<Expression> conjuncts, boolean keepsValues) {
        this.keepsValues = keepsValues;
        for (Expression conjunct : conjuncts) add(conjunct);
    }

    List<ColumnTest> tests() {
        return byColumn.values().stream().limit(MAX_COLUMNS).toList();
    }

    /** Returns some values that each column is compared with, as text; none unless values are kept. */
    Map<String, Set<String>> samples() {
        return samples;
    }

    private void add(Expression conjunct) {
        if (conjunct instanceof IsNotNull) return; // Spark infers IS NOT NULL from most other tests, and most rows satisfy it
        ColumnTest plain = plain(conjunct);
        if (plain != null) {
            byColumn.merge(plain.column(), plain, (test, other) -> test.isStricterThan(other) ? test : other);
            return;
        }
        for (Attribute used : Scala.list(conjunct.references().toSeq())) {
            byColumn.putIfAbsent(name(used), ColumnTest.of(name(used), ColumnTest.Kind.OTHER));
        }
    }

    /** Returns a conjunct as a test of a single column; null for any other condition. */
    private ColumnTest plain(Expression conjunct) {
        if (conjunct instanceof Or or) return alternatives(or);
        if (conjunct instanceof BinaryComparison comparison) return comparison(comparison);
        if (conjunct instanceof In in && in.value() instanceof Attribute column) return in(column, Scala.list(in.list()));
        if (conjunct instanceof InSet in && in.child() instanceof Attribute column) return in(column, in);
        if (conjunct instanceof IsNull test && test.child() instanceof Attribute column) return of(column, ColumnTest.Kind.NULL);
        if (conjunct instanceof StartsWith test && test.left() instanceof Attribute column) return of(column, ColumnTest.Kind.RANGE);
        Expression flag = conjunct instanceof Not not ? not.child() : conjunct;
        if (flag instanceof Attribute column && column.dataType() instanceof BooleanType) return ColumnTest.in(name(column), 1);
        return null;
    }

    private ColumnTest comparison(BinaryComparison comparison) {
        boolean swapped = !(comparison.left() instanceof Attribute);
        Expression tested = swapped ? comparison.right() : comparison.left();
        Expression other = swapped ? comparison.left() : comparison.right();
        if (!(tested instanceof Attribute column) || !other.references().isEmpty() || Conditions.isOpaque(other)) return null;
        if (!(comparison instanceof EqualTo) && !(comparison instanceof EqualNullSafe)) return of(column, ColumnTest.Kind.RANGE);
        keep(column, other);
        return ColumnTest.in(name(column), 1);
    }

    private ColumnTest in(Attribute column, List<Expression> values) {
        if (!values.stream().allMatch(Literal.class::isInstance)) return null;
        values.stream().limit(MAX_SAMPLES).forEach(value -> keep(column, value));
        return ColumnTest.in(name(column), values.size());
    }

    private ColumnTest in(Attribute column, InSet in) {
        scala.collection.Iterator<Object> values = in.hset().iterator();
        for (int at = 0; keepsValues && at < MAX_SAMPLES && values.hasNext(); at++) {
            keep(column, new Literal(values.next(), column.dataType()));
        }
        return ColumnTest.in(name(column), Scala.size(in.hset()));
    }

    /** Returns a disjunction as a test of a single column; null unless it has only equalities and INs on the same column. */
    private ColumnTest alternatives(Or or) {
        List<Expression> waiting = new ArrayList<>(List.of(or));
        String column = null;
        int values = 0;
        while (!waiting.isEmpty()) {
            Expression alternative = waiting.remove(waiting.size() - 1);
            if (alternative instanceof Or inner) {
                waiting.addAll(List.of(inner.left(), inner.right()));
                continue;
            }
            ColumnTest test = plain(alternative);
            if (test == null || test.values() == 0 || column != null && !column.equals(test.column())) return null;
            column = test.column();
            values += test.values();
        }
        return ColumnTest.in(column, values);
    }

    private void keep(Attribute column, Expression value) {
        if (!keepsValues || !(value instanceof Literal literal) || literal.value() == null) return;
        String text = literal.dataType() instanceof DateType
                ? java.time.LocalDate.ofEpochDay((Integer) literal.value()).toString() : literal.value().toString();
        if (text.length() > MAX_SAMPLE_CHARACTERS) return;
        Set<String> texts = samples.computeIfAbsent(name(column), missing -> new LinkedHashSet<>());
        if (texts.size() < MAX_SAMPLES) texts.add(text);
    }

    private static ColumnTest of(Attribute column, ColumnTest.Kind kind) {
        return ColumnTest.of(name(column), kind);
    }

    private static String name(Attribute column) {
        return column.name().toLowerCase(Locale.ROOT);
    }
}
