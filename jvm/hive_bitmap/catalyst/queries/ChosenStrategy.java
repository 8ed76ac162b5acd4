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
 * What the caller of a function of {@code hive_bitmap} has chosen for the table that it reads: a tag of the relation in the plan
 * of its DataFrame.
 *
 * @param strategy the name of the strategy, "" if that is left to the planner
 * @param mustPay whether a table that Spark reads in no time is left alone; if not, the caller wants to know what the indexes say
 *     of any table, and waits for it, of the files as they are now
 */
public record ChosenStrategy(String strategy, boolean mustPay) {
    private static final TreeNodeTag<ChosenStrategy> TAG = new TreeNodeTag<>("hive_bitmap.strategy");

    /**
     * Returns the DataFrame of a table, as {@code spark.table} gives it, with this choice; as it is if it is a view, or no table
     * that may have indexes. Its relation is a copy, since Spark keeps the one that it gave for other queries; its columns are the same.
     */
    public Dataset<Row> in(Dataset<Row> table) throws AnalysisException {
        if (copied(table.queryExecution().analyzed()) == null) return table;
        LogicalPlan copy = copied(CurrentFiles.of(table).queryExecution().analyzed());
        if (copy == null) return table;
        copy.setAnalyzed(); // as the table's plan is: another analysis, under other settings, might give another plan
        Dataset<Row> chosen = Dataset.ofRows(table.sparkSession(), copy);
        for (LogicalPlan leaf : Scala.list(chosen.queryExecution().analyzed().collectLeaves())) leaf.setTagValue(TAG, this);
        return chosen;
    }

    private LogicalPlan copied(LogicalPlan table) {
        if (table instanceof SubqueryAlias alias) {
            LogicalPlan child = copied(alias.child());
            return child == null ? null : new SubqueryAlias(alias.identifier(), child);
        }
        if (table instanceof Project padded && Scan.mayBeIndexable(padded.child())) { // columns of type CHAR are padded when they are read
            return new Project(padded.projectList(), copied(padded.child()));
        }
        if (!Scan.mayBeIndexable(table)) return null;
        return table instanceof LogicalRelation relation && !mustPay ? CurrentFiles.relisted(relation) : table.clone();
    }

    /** Returns what was chosen for a scan; null for one of any other DataFrame. */
    public static ChosenStrategy of(Scan scan) {
        Option<ChosenStrategy> chosen = scan.relation.getTagValue(TAG);
        return chosen.isDefined() ? chosen.get() : null;
    }

    /** Whether a scan is left alone if Spark reads its table in no time. */
    public static boolean mustPay(Scan scan) {
        ChosenStrategy chosen = of(scan);
        return chosen == null || chosen.mustPay;
    }
}
