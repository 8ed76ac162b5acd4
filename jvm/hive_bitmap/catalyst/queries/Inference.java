package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.spark.Allowlist;
import hive_bitmap.catalyst.spark.Conditions;
import hive_bitmap.catalyst.spark.Scala;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/**
 * Infers conditions that Spark does not: INTERSECT and EXCEPT are semi and anti joins on {@code <=>}, and a condition on a
 * column of their left side also holds for the matching rows of the right side. Right rows without a match do not change
 * the result, so they may be filtered. Spark's InferFiltersFromConstraints does the same for {@code =} only.
 */
public final class Inference {
    private Inference() {}

    /** Adds the conditions on the left side of such joins to the scans on their right side. */
    public static void add(LogicalPlan plan, List<Scan> scans) {
        if (plan instanceof Join join && join.condition().isDefined()
                && (join.joinType() == LeftSemi$.MODULE$ || join.joinType() == LeftAnti$.MODULE$)) {
            for (Expression one : Conditions.conjuncts(join.condition().get())) {
                if (one instanceof EqualNullSafe equal && equal.left() instanceof Attribute a && equal.right() instanceof Attribute b) {
                    if (join.left().outputSet().contains(a)) add(join, a, b, scans);
                    else add(join, b, a, scans);
                }
            }
        }
        for (LogicalPlan child : Scala.list(plan.children())) add(child, scans);
    }

    private static void add(Join join, Attribute left, Attribute right, List<Scan> scans) {
        if (!join.right().outputSet().contains(right) || !left.dataType().equals(right.dataType()) || !Allowlist.isExact(left.dataType())) return;
        Joins.Source source = Joins.source(join.right(), right);
        if (source == null) return;
        for (Scan scan : scans) {
            if (scan.relation != source.relation() || scan.aggregate != null) continue;
            for (Expression known : Scala.list(join.left().constraints().toSeq())) {
                if (known.references().size() == 1 && known.references().contains(left) && Joins.selects(known)) {
                    scan.conjuncts.add(Conditions.substitute(known, left, source.column()));
                }
            }
        }
    }
}
