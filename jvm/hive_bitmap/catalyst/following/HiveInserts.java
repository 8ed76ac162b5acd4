package hive_bitmap.catalyst.following;

import hive_bitmap.catalyst.spark.Scala;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.hive.execution.InsertIntoHiveTable;
import scala.Option;

/** Inserts into tables of Hive SerDes. Spark may run without the module of their class, which is named as a text first. */
final class HiveInserts {
    private static final String INSERT = "org.apache.spark.sql.hive.execution.InsertIntoHiveTable";

    private HiveInserts() {}

    static boolean is(LogicalPlan plan) {
        return plan.getClass().getName().equals(INSERT);
    }

    /** Whether a plan is such an insert, whose statement leaves a partition to the rows. */
    static boolean isDynamic(LogicalPlan plan) {
        return is(plan) && isDynamic((InsertIntoHiveTable) plan);
    }

    private static boolean isDynamic(InsertIntoHiveTable insert) {
        return staticPartition(insert).size() < Scala.list(insert.table().partitionColumnNames()).size();
    }

    static FollowedHiveInsert followed(LogicalPlan plan) {
        return new FollowedHiveInsert((InsertIntoHiveTable) plan);
    }

    /** The values that the statement gives, by partition column; a column that it leaves to the rows is not in it. */
    private static Map<String, String> staticPartition(InsertIntoHiveTable insert) {
        Map<String, String> values = new HashMap<>();
        for (Map.Entry<String, Option<String>> one : Scala.javaMap(insert.partition()).entrySet()) {
            if (one.getValue().isDefined()) values.put(one.getKey(), one.getValue().get());
        }
        return values;
    }

    /** What an insert has written whose statement gives all partition values. */
    static Write write(LogicalPlan plan) {
        InsertIntoHiveTable insert = (InsertIntoHiveTable) plan;
        return Write.bySpecs(insert.table().identifier(), List.of(staticPartition(insert)));
    }
}
