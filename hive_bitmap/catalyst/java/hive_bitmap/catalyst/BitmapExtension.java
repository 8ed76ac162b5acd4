package hive_bitmap.catalyst;

import java.util.Collections;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.SparkStrategy;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/** {@code spark.sql.extensions=hive_bitmap.catalyst.BitmapExtension}. */
public final class BitmapExtension extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
    private static final Set<SparkSessionExtensions> KNOWN = Collections.newSetFromMap(new WeakHashMap<>());

    @Override
    public BoxedUnit apply(SparkSessionExtensions extensions) {
        inject(extensions);
        return BoxedUnit.UNIT;
    }

    /** Let sessions of these extensions use indexes: new ones, and those that are there. */
    static void inject(SparkSessionExtensions extensions) {
        synchronized (KNOWN) {
            if (!KNOWN.add(extensions)) return;
        }
        extensions.injectPreCBORule(new AbstractFunction1<SparkSession, Rule<LogicalPlan>>() {
            @Override
            public Rule<LogicalPlan> apply(SparkSession session) {
                return new UseIndexes(session);
            }
        });
        extensions.injectPlannerStrategy(new AbstractFunction1<SparkSession, SparkStrategy>() {
            @Override
            public SparkStrategy apply(SparkSession session) {
                return new PlanIndexes(session);
            }
        });
    }
}
