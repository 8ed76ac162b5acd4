package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.python.Reports;
import hive_bitmap.catalyst.spark.Scala;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/**
 * Relations that occur in a plan more than once as the same object: Spark repeats the outer query of a LATERAL or correlated
 * subquery in this way. A replacement that fits the condition and columns of one occurrence would replace the others too.
 */
public final class Repeated {
    private Repeated() {}

    /** Leaves the scans of repeated relations alone and removes them from {@code scans}. */
    public static void remove(List<Scan> scans, LogicalPlan plan) {
        Set<LogicalPlan> repeated = leaves(plan);
        for (Scan scan : List.copyOf(scans)) {
            if (!repeated.contains(scan.relation)) continue;
            scans.remove(scan);
            scan.leaveAlone("unsupported");
            String name = scan.table.identifier().unquotedString();
            Reports.add(List.of(Reports.leftAlone(name, "unsupported", "the plan has the same node of the scan more than once")));
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
