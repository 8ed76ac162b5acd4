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
 * Infers conditions for the right sides of INTERSECT and EXCEPT. In Spark's plans these are semi and anti joins on {@code <=>}, so
 * a condition on a column of the left side also holds for the matching rows of the right side. Right rows without a match do not
 * change the result and may be left out. Spark's InferFiltersFromConstraints infers such conditions for {@code =} only.
 */
public final class Inference {
    private Inference() {}

    /** Adds the conditions of left sides to the scans on their right sides. */
    public static void add(LogicalPlan plan, List<Scan> scans) {
        if (plan instanceof Join join && join.condition().isDefined()
                && (join.joinType() == LeftSemi$.MODULE$ || join.joinType() == LeftAnti$.MODULE$)) {
            for (Expression conjunct : Conditions.conjuncts(join.condition().get())) {
                if (conjunct instanceof EqualNullSafe equal && equal.left() instanceof Attribute a && equal.right() instanceof Attribute b) {
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
            for (Expression constraint : Scala.list(join.left().constraints().toSeq())) {
                if (constraint.references().size() == 1 && constraint.references().contains(left) && Joins.selects(constraint)) {
                    scan.conjuncts.add(Conditions.substitute(constraint, left, source.column()));
                }
            }
        }
    }
}
