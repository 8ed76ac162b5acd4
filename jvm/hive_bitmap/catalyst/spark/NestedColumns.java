package hive_bitmap.catalyst.spark;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.SchemaPruning$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/** Columns that are arrays, maps or structs, and the types in which Spark reads them. */
public final class NestedColumns {
    private NestedColumns() {}

    /** Applies Spark's own rule by which relations get only the fields of structs that the query needs. */
    public static LogicalPlan pruned(LogicalPlan plan) {
        return isExcluded() ? plan : SchemaPruning$.MODULE$.apply(plan);
    }

    private static boolean isExcluded() {
        Option<String> rules = SQLConf.get().optimizerExcludedRules();
        String name = SchemaPruning$.MODULE$.ruleName();
        return rules.isDefined() && Arrays.stream(rules.get().split(",")).anyMatch(rule -> rule.trim().equals(name));
    }

    /** Returns the types of nested columns as JSON, by name. Columns whose type JSON cannot express are left out. */
    public static Map<String, String> types(List<Attribute> columns) {
        Map<String, String> types = new LinkedHashMap<>();
        for (Attribute column : columns) {
            DataType type = column.dataType();
            boolean isNested = type instanceof ArrayType || type instanceof MapType || type instanceof StructType;
            if (isNested && DataType.fromJson(type.json()).equals(type)) types.put(column.name(), type.json());
        }
        return types;
    }
}
