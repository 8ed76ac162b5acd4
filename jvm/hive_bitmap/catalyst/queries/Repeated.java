package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.python.Reports;
import hive_bitmap.catalyst.spark.Scala;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/**
 * Relations that stand in a plan more than once as one and the same object, as Spark makes of the outer query of a LATERAL
 * or correlated subquery. What replaces one of them, for its condition and its columns, would replace the others too.
 */
public final class Repeated {
    private Repeated() {}

    /** Removes the scans of such relations, which are left to Spark. */
    public static void remove(List<Scan> scans, LogicalPlan plan) {
        Set<LogicalPlan> repeated = leaves(plan);
        for (Scan scan : List.copyOf(scans)) {
            if (!repeated.contains(scan.relation)) continue;
            scans.remove(scan);
            scan.leaveAlone("unsupported");
            String name = scan.table.identifier().unquotedString();
            Reports.add(List.of(Reports.leftAlone(name, "unsupported", "the scan stands in the plan more than once, as one node")));
        }
    }

    private static Set<LogicalPlan> leaves(LogicalPlan plan) {
        Set<LogicalPlan> seen = Collections.newSetFromMap(new IdentityHashMap<>());
        Set<LogicalPlan> repeated = Collections.newSetFromMap(new IdentityHashMap<>());
        Scala.list(plan.collectWithSubqueries(Scala.<LogicalPlan>replacing(Repeated::asLeaf))).forEach(leaf -> {
            if (!seen.add(leaf)) repeated.add(leaf);
        });
        return repeated;
    }

    private static LogicalPlan asLeaf(LogicalPlan node) {
        return Scala.list(node.children()).isEmpty() ? node : null;
    }
}
