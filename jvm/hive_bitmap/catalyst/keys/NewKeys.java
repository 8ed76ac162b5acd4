package hive_bitmap.catalyst.keys;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/** Describes expressions that are to be keys of new indexes, or to be aggregated by them. */
public final class NewKeys {
    private NewKeys() {}

    /**
     * Resolves an expression over columns, and returns it together with a JSON object, to which the rest of its description is
     * added. Throws NotServed if the expression cannot be a key.
     */
    @FunctionalInterface
    private interface Resolver {
        Tuple2<Expression, ObjectNode> resolve(Map<String, String> settings, List<Attribute> columns);
    }

    /**
     * Describes an expression over the columns of a table, as JSON: its type, its columns, its SQL text, and the settings that it
     * depends on. If it cannot be a key, {@code refusal} says why.
     *
     * @param sql the text of the expression
     * @param schema the columns of the table, in JSON
     */
    public static String described(SparkSession session, String sql, String schema) {
        return described(session, schema, (settings, columns) -> {
            Expression resolved = KeyExpressions.resolved(session, sql, settings, columns);
            return Tuple2.apply(resolved, JsonNodeFactory.instance.objectNode());
        });
    }

    /**
     * Describes a Column with a name, like the text of an expression, and adds its name as {@code alias}. The index keeps only the
     * SQL text, so this must mean the same as the Column.
     */
    public static String described(SparkSession session, Column column, String schema) {
        return described(session, schema, (settings, columns) -> {
            Expression named = KeyExpressions.refusedIfUnknown(() -> ((org.apache.spark.sql.classic.SparkSession) session).expression(column));
            if (!(named instanceof Alias alias)) throw new KeyExpressions.NotServed("it has no name: add .alias(..)");
            if (alias.child().exists(Scala.predicate(node -> node instanceof AttributeReference))) {
                throw new KeyExpressions.NotServed("it has columns of a DataFrame: use F.col with the name of the column");
            }
            Expression resolved = KeyExpressions.requireKey(KeyExpressions.simplified(session, parser -> alias.child(), settings, columns), settings);
            String text = KeyExpressions.canonical(resolved);
            Expression ofText = KeyExpressions.resolved(session, text, settings, columns);
            if (!ofText.canonicalized().equals(resolved.canonicalized())) {
                throw new KeyExpressions.NotServed("its text " + text + " has another meaning in SQL");
            }
            return Tuple2.apply(resolved, JsonNodeFactory.instance.objectNode().put("alias", alias.name()));
        });
    }

    /** Describes an expression that is to be aggregated, as {@link #described} does for a key. */
    public static String aggregated(SparkSession session, String sql, String schema) {
        return described(session, schema, (settings, columns) -> {
            settings.put(KeyExpressions.PRECISION_LOSS, Boolean.toString(KeyExpressions.confOf(session).decimalOperationsAllowPrecisionLoss()));
            Expression resolved = KeyExpressions.resolvedAggregated(session, sql, settings, columns);
            return Tuple2.apply(resolved, JsonNodeFactory.instance.objectNode());
        });
    }

    private static String described(SparkSession session, String schema, Resolver resolver) {
        List<Attribute> columns = new ArrayList<>();
        StructType types = CharVarcharUtils.replaceCharVarcharWithStringInSchema((StructType) DataType.fromJson(schema));
        for (StructField field : types.fields()) {
            columns.add(new AttributeReference(field.name(), field.dataType(), true, field.metadata(),
                    NamedExpression$.MODULE$.newExprId(), Scala.seq(List.<String>of())));
        }
        Map<String, String> settings = new HashMap<>();
        settings.put(KeyExpressions.ANSI, Boolean.toString(KeyExpressions.confOf(session).ansiEnabled()));
        settings.put(KeyExpressions.TIME_ZONE, KeyExpressions.confOf(session).sessionLocalTimeZone());
        try {
            Tuple2<Expression, ObjectNode> resolution = resolver.resolve(settings, columns);
            Expression resolved = resolution._1();
            ObjectNode described = resolution._2();
            described.put("type", resolved.dataType().simpleString());
            described.put("sql", KeyExpressions.canonical(resolved));
            for (Attribute column : Scala.list(resolved.references().toSeq())) described.withArray("columns").add(column.name());
            dependencies(resolved, settings).forEach(described.putObject("settings")::put);
            return described.toString();
        } catch (KeyExpressions.NotServed e) {
            return JsonNodeFactory.instance.objectNode().put("refusal", e.getMessage()).toString();
        }
    }

    /** Returns the settings that an expression depends on, and the version of the time zone's rules. */
    private static Map<String, String> dependencies(Expression resolved, Map<String, String> settings) {
        Map<String, String> needed = new LinkedHashMap<>();
        if (settings.containsKey(KeyExpressions.PRECISION_LOSS)) { // an expression to aggregate
            for (String name : List.of(KeyExpressions.ANSI, KeyExpressions.PRECISION_LOSS)) needed.put(name, settings.get(name));
            return needed;
        }
        if (resolved.exists(Scala.predicate(StoredFunctions::dependsOnAnsi))) needed.put(KeyExpressions.ANSI, settings.get(KeyExpressions.ANSI));
        if (resolved.exists(Scala.predicate(StoredFunctions::dependsOnZone))) {
            needed.put(KeyExpressions.TIME_ZONE, settings.get(KeyExpressions.TIME_ZONE));
            String rules = KeyExpressions.rules(settings.get(KeyExpressions.TIME_ZONE));
            if (!rules.isEmpty()) needed.put(KeyExpressions.TZDATA, rules);
        }
        return needed;
    }
}
