package hive_bitmap.catalyst.spark;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.catalog.HiveTableRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.FileRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

/**
 * Returns the files of the relations in a plan, like {@code Dataset.inputFiles}, but also those of a plan that a leaf has replaced.
 */
public final class InputFiles {
    private InputFiles() {}

    public static String[] of(LogicalPlan plan) {
        Set<String> files = new LinkedHashSet<>();
        for (LogicalPlan leaf : Scala.list(plan.collectLeaves())) {
            if (leaf instanceof LogicalRelation read && read.relation() instanceof FileRelation relation) {
                files.addAll(List.of(relation.inputFiles()));
            } else if (leaf instanceof FileRelation relation) {
                files.addAll(List.of(relation.inputFiles()));
            } else if (leaf instanceof HiveTableRelation table) {
                table.tableMeta().storage().locationUri().foreach(folder -> files.add(folder.toString()));
            }
        }
        return files.toArray(String[]::new);
    }
}
