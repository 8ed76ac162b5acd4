package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.spark.Scala;
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

/** The columns of scans that are arrays, maps or structs, and the types that Spark reads of them. */
public final class NestedColumns {
    private NestedColumns() {}

    /**
     * Returns a plan whose relations have only the fields of structs that the query needs. Spark's own rule does it right after
     * this package's; until then, scans have the types of their tables. It must not prune a Delta table that Delta has yet to
     * prepare; then nested columns are left to Spark.
     */
    public static LogicalPlan pruned(LogicalPlan plan, List<Scan> scans) {
        boolean isNeeded = scans.stream().anyMatch(scan -> scan.files() != null && !scan.isOfDelta() && !types(scan).isEmpty());
        if (!isNeeded || isExcluded()) return plan;
        if (plan.exists(Scala.predicate(node -> Scan.mayBeIndexable(node) && !Scan.isIndexable(node)))) {
            scans.forEach(scan -> scan.hasTypesOfPlan = false);
            return plan;
        }
        return SchemaPruning$.MODULE$.apply(plan);
    }

    private static boolean isExcluded() {
        Option<String> rules = SQLConf.get().optimizerExcludedRules();
        String name = SchemaPruning$.MODULE$.ruleName();
        return rules.isDefined() && Arrays.stream(rules.get().split(",")).anyMatch(rule -> rule.trim().equals(name));
    }

    /** Returns the types of nested columns as JSON, by name. Columns with a type that JSON does not tell are left out. */
    static Map<String, String> types(Scan scan) {
        Map<String, String> types = new LinkedHashMap<>();
        for (Attribute column : scan.hasTypesOfPlan ? scan.columns : List.<Attribute>of()) {
            DataType type = column.dataType();
            boolean isNested = type instanceof ArrayType || type instanceof MapType || type instanceof StructType;
            if (isNested && DataType.fromJson(type.json()).equals(type)) types.put(column.name(), type.json());
        }
        return types;
    }
}
