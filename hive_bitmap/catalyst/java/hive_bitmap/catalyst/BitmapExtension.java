package hive_bitmap.catalyst;

import hive_bitmap.catalyst.queries.Helper;
import hive_bitmap.catalyst.statements.Statements;
import java.util.Collections;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.SparkStrategy;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractFunction2;
import scala.runtime.BoxedUnit;

/**
 * {@code spark.sql.extensions=hive_bitmap.catalyst.BitmapExtension}: queries use indexes and index statements are done. A
 * Python process is started for that unless the driver is a Python that answers itself.
 */
public final class BitmapExtension extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
    private static final Set<SparkSessionExtensions> KNOWN = Collections.newSetFromMap(new WeakHashMap<>());

    @Override
    public BoxedUnit apply(SparkSessionExtensions extensions) {
        Helper.install();
        inject(extensions);
        return BoxedUnit.UNIT;
    }

    /** Let sessions of these extensions use indexes: new ones, and those that are there. */
    static void inject(SparkSessionExtensions extensions) {
        synchronized (KNOWN) {
            if (!KNOWN.add(extensions)) return;
        }
        Classes.load();
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
        extensions.injectParser(new AbstractFunction2<SparkSession, ParserInterface, ParserInterface>() {
            @Override
            public ParserInterface apply(SparkSession session, ParserInterface parser) {
                return Statements.parser(session, parser);
            }
        });
    }
}
