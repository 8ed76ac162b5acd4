package hive_bitmap.catalyst.queries;

import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import scala.Option;

/** The strategy that the caller of {@code hive_bitmap.scan} has chosen: a tag of the relation in the plan of that DataFrame. */
public final class ChosenStrategy {
    private static final TreeNodeTag<String> TAG = new TreeNodeTag<>("hive_bitmap.strategy");

    private ChosenStrategy() {}

    /**
     * Returns the plan of a table, as {@code spark.table} gives it, that is read by a strategy; null if it is a view, or no
     * table that may have indexes. The relation is another instance, since Spark keeps the one that it gave for other queries.
     */
    public static LogicalPlan of(LogicalPlan table, String strategy) {
        if (table instanceof SubqueryAlias alias) {
            LogicalPlan child = of(alias.child(), strategy);
            return child == null ? null : new SubqueryAlias(alias.identifier(), child);
        }
        if (!Scan.isIndexable(table)) return null;
        LogicalPlan relation = ((MultiInstanceRelation) table).newInstance();
        relation.setTagValue(TAG, strategy);
        return relation;
    }

    /** Returns the strategy that was chosen for a relation; null if none was. */
    static String of(LogicalPlan relation) {
        Option<String> chosen = relation.getTagValue(TAG);
        return chosen.isDefined() ? chosen.get() : null;
    }
}
