package hive_bitmap.catalyst;

import hive_bitmap.catalyst.following.FollowInserts;
import hive_bitmap.catalyst.python.CurrentContext;
import hive_bitmap.catalyst.python.Helper;
import hive_bitmap.catalyst.python.SettingEntries;
import hive_bitmap.catalyst.statements.AlongWithTables;
import hive_bitmap.catalyst.statements.Statements;
import java.util.Collections;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkContext$;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.SparkStrategy;
import scala.Option;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractFunction2;
import scala.runtime.BoxedUnit;

/**
 * Spark's entry point for the setting {@code spark.sql.extensions=hive_bitmap.catalyst.BitmapExtension}. With it, queries use
 * indexes, and index statements are executed. The driver's own Python decides on plans and executes statements if it has
 * registered, otherwise a helper process does.
 */
public final class BitmapExtension extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
    private static final Set<SparkSessionExtensions> INJECTED = Collections.newSetFromMap(new WeakHashMap<>());

    @Override
    public BoxedUnit apply(SparkSessionExtensions extensions) {
        Option<SparkContext> context = SparkContext$.MODULE$.getActive();
        if (context.isDefined()) CurrentContext.is(context.get());
        Helper.install();
        inject(extensions);
        return BoxedUnit.UNIT;
    }

    /** Adds the rule, the strategies and the parser once to the sessions of these extensions. */
    static void inject(SparkSessionExtensions extensions) {
        synchronized (INJECTED) {
            if (!INJECTED.add(extensions)) return;
        }
        Classes.load();
        Option<SparkContext> context = SparkContext$.MODULE$.getActive();
        SettingEntries.register(context.isDefined() ? context.get().getConf() : new SparkConf());
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
        extensions.injectPlannerStrategy(new AbstractFunction1<SparkSession, SparkStrategy>() {
            @Override
            public SparkStrategy apply(SparkSession session) {
                return new FollowInserts(session);
            }
        });
        extensions.injectPlannerStrategy(new AbstractFunction1<SparkSession, SparkStrategy>() {
            @Override
            public SparkStrategy apply(SparkSession session) {
                return new AlongWithTables();
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
