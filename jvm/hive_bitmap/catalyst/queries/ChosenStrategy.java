package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.reading.CurrentFiles;
import hive_bitmap.catalyst.spark.Scala;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.Option;

/**
 * The strategy that a caller of {@code hive_bitmap}'s functions has chosen for one table. It is a tag of the relation in the
 * DataFrame's plan.
 *
 * @param strategy the name of the strategy, "" to leave it to the planner
 * @param mustPay whether a table that Spark reads in no time is left alone. If {@code false}, the indexes are used for any table,
 *     with its current files, and the caller waits for the answer
 */
public record ChosenStrategy(String strategy, boolean mustPay) {
    private static final TreeNodeTag<ChosenStrategy> TAG = new TreeNodeTag<>("hive_bitmap.strategy");

    /**
     * Returns the DataFrame of a table with this choice. {@code table} comes from {@code spark.table}; it is returned unchanged if
     * it is a view, or a table that cannot have indexes. The result has the same columns, and a copy of the relation, because Spark
     * caches the original for other queries.
     */
    public Dataset<Row> in(Dataset<Row> table) throws AnalysisException {
        if (copied(table.queryExecution().analyzed()) == null) return table;
        LogicalPlan copy = copied(CurrentFiles.of(table).queryExecution().analyzed());
        if (copy == null) return table;
        copy.setAnalyzed(); // like the table's plan: a second analysis, under other settings, might give another plan
        Dataset<Row> chosen = Dataset.ofRows(table.sparkSession(), copy);
        for (LogicalPlan leaf : Scala.list(chosen.queryExecution().analyzed().collectLeaves())) leaf.setTagValue(TAG, this);
        return chosen;
    }

    /** Returns a copy of a table's plan; null if the table cannot have indexes. */
    private LogicalPlan copied(LogicalPlan table) {
        if (table instanceof SubqueryAlias alias) {
            LogicalPlan child = copied(alias.child());
            return child == null ? null : new SubqueryAlias(alias.identifier(), child);
        }
        if (table instanceof Project padded && Scan.mayBeIndexable(padded.child())) { // Spark pads CHAR columns when it reads them
            return new Project(padded.projectList(), copied(padded.child()));
        }
        if (!Scan.mayBeIndexable(table)) return null;
        return table instanceof LogicalRelation relation && !mustPay ? CurrentFiles.relisted(relation) : table.clone();
    }

    /** Returns the choice for a scan; null if the scan has none. */
    public static ChosenStrategy of(Scan scan) {
        Option<ChosenStrategy> chosen = scan.relation.getTagValue(TAG);
        return chosen.isDefined() ? chosen.get() : null;
    }

    /** Returns whether a scan is left alone if Spark reads its table in no time. */
    public static boolean mustPay(Scan scan) {
        ChosenStrategy chosen = of(scan);
        return chosen == null || chosen.mustPay;
    }
}
