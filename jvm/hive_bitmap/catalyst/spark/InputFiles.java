package hive_bitmap.catalyst.spark;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.catalog.HiveTableRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.FileRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

/** The files of the relations in a plan, as {@code Dataset.inputFiles} tells them: also of a plan that a leaf has replaced. */
public final class InputFiles {
    private InputFiles() {}

    public static String[] of(LogicalPlan plan) {
        Set<String> found = new LinkedHashSet<>();
        for (LogicalPlan leaf : Scala.list(plan.collectLeaves())) {
            if (leaf instanceof LogicalRelation read && read.relation() instanceof FileRelation files) {
                found.addAll(List.of(files.inputFiles()));
            } else if (leaf instanceof FileRelation files) {
                found.addAll(List.of(files.inputFiles()));
            } else if (leaf instanceof HiveTableRelation table) {
                table.tableMeta().storage().locationUri().foreach(place -> found.add(place.toString()));
            }
        }
        return found.toArray(String[]::new);
    }
}
