package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.spark.Scala;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.classic.Dataset;
import scala.Option;

/**
 * The strategy that the caller of {@code hive_bitmap.scan} has chosen, "" if that is left to the planner: a tag of the relation
 * in the plan of that DataFrame.
 */
public final class ChosenStrategy {
    private static final TreeNodeTag<String> TAG = new TreeNodeTag<>("hive_bitmap.strategy");

    private ChosenStrategy() {}

    /**
     * Returns the DataFrame of a table, as {@code spark.table} gives it, with a strategy; null if it is a view, or no table that
     * may have indexes. Its relation is a copy, since Spark keeps the one that it gave for other queries; its columns are the same.
     */
    public static Dataset<Row> in(Dataset<Row> table, String strategy) {
        LogicalPlan copy = copied(table.queryExecution().analyzed());
        if (copy == null) return null;
        copy.setAnalyzed(); // as the table's plan is: another analysis, under other settings, might give another plan
        Dataset<Row> chosen = Dataset.ofRows(table.sparkSession(), copy);
        for (LogicalPlan leaf : Scala.list(chosen.queryExecution().analyzed().collectLeaves())) leaf.setTagValue(TAG, strategy);
        return chosen;
    }

    private static LogicalPlan copied(LogicalPlan table) {
        if (table instanceof SubqueryAlias alias) {
            LogicalPlan child = copied(alias.child());
            return child == null ? null : new SubqueryAlias(alias.identifier(), child);
        }
        return Scan.isIndexable(table) ? table.clone() : null;
    }

    /** Returns the strategy that was chosen for a scan; null for one of any other DataFrame. */
    public static String of(Scan scan) {
        Option<String> chosen = scan.relation.getTagValue(TAG);
        return chosen.isDefined() ? chosen.get() : null;
    }
}
