package hive_bitmap.catalyst.following;

import hive_bitmap.catalyst.spark.Scala;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.hive.execution.InsertIntoHiveTable;
import scala.Option;

/**
 * Recognises inserts into tables of Hive SerDes. The name of their class is checked first, because Spark may run without the class.
 */
final class HiveInserts {
    private static final String INSERT = "org.apache.spark.sql.hive.execution.InsertIntoHiveTable";

    private HiveInserts() {}

    static boolean is(LogicalPlan plan) {
        return plan.getClass().getName().equals(INSERT);
    }

    /** Returns whether a plan is an insert into a table of a Hive SerDe in which some partition value comes from the rows. */
    static boolean isDynamic(LogicalPlan plan) {
        return is(plan) && isDynamic((InsertIntoHiveTable) plan);
    }

    private static boolean isDynamic(InsertIntoHiveTable insert) {
        return staticPartition(insert).size() < Scala.list(insert.table().partitionColumnNames()).size();
    }

    static FollowedHiveInsert followed(LogicalPlan plan) {
        return new FollowedHiveInsert((InsertIntoHiveTable) plan);
    }

    /** Returns the partition values that the statement gives, by column. Columns with values from the rows are left out. */
    private static Map<String, String> staticPartition(InsertIntoHiveTable insert) {
        Map<String, String> values = new HashMap<>();
        for (Map.Entry<String, Option<String>> entry : Scala.javaMap(insert.partition()).entrySet()) {
            if (entry.getValue().isDefined()) values.put(entry.getKey(), entry.getValue().get());
        }
        return values;
    }

    /** Returns the write of an insert into a table of a Hive SerDe whose statement gives all partition values. */
    static Write write(LogicalPlan plan) {
        InsertIntoHiveTable insert = (InsertIntoHiveTable) plan;
        return Write.bySpecs(insert.table().identifier(), List.of(staticPartition(insert)));
    }
}
