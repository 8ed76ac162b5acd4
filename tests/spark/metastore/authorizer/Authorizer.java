import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * An authorizer that works as Ranger's for Spark does: rules of the analyzer add row filters and masks, and a rule of the
 * optimizer refuses. Who may read what is in system properties, and what was asked is in {@link #seen}.
 */
public final class Authorizer extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
    public static final List<String> seen = new CopyOnWriteArrayList<>();

    public static String takeSeen() {
        String all = String.join(",", seen);
        seen.clear();
        return all;
    }

    @Override
    public BoxedUnit apply(SparkSessionExtensions extensions) {
        extensions.injectResolutionRule(new AbstractFunction1<SparkSession, Rule<LogicalPlan>>() {
            @Override
            public Rule<LogicalPlan> apply(SparkSession session) {
                return new Filters();
            }
        });
        extensions.injectOptimizerRule(new AbstractFunction1<SparkSession, Rule<LogicalPlan>>() {
            @Override
            public Rule<LogicalPlan> apply(SparkSession session) {
                return new Checks();
            }
        });
        return BoxedUnit.UNIT;
    }

    private static boolean says(String property, LogicalPlan plan) {
        return plan instanceof LogicalRelation scan && scan.catalogTable().isDefined()
                && List.of(System.getProperty(property, "").split(",")).contains(scan.catalogTable().get().identifier().table());
    }

    private static Attribute key(LogicalPlan plan) {
        return CollectionConverters.asJava(plan.output()).stream().filter(one -> one.name().equals("k")).findAny().orElseThrow();
    }

    private static Expression number(int value) {
        return new Literal(value, DataTypes.IntegerType);
    }

    private static <T> Seq<T> seq(List<T> items) {
        return scala.collection.immutable.List.from(CollectionConverters.asScala(items));
    }

    private static final class Filters extends Rule<LogicalPlan> {
        @Override
        public LogicalPlan apply(LogicalPlan plan) {
            if (isGuard(plan)) return plan;
            if (says("authorizer.filter", plan)) return new Filter(new Not(new EqualTo(key(plan), number(3))), plan);
            if (says("authorizer.mask", plan)) return masked(plan);
            return (LogicalPlan) plan.mapChildren(new AbstractFunction1<LogicalPlan, LogicalPlan>() {
                @Override
                public LogicalPlan apply(LogicalPlan child) {
                    return Filters.this.apply(child);
                }
            });
        }

        /** Whether this is what was put above a scan before: elsewhere an alias of the table lies between. */
        private static boolean isGuard(LogicalPlan plan) {
            return plan instanceof Filter filter && says("authorizer.filter", filter.child())
                    || plan instanceof Project project && says("authorizer.mask", project.child());
        }

        private static LogicalPlan masked(LogicalPlan scan) {
            Attribute key = key(scan);
            NamedExpression zero = new Alias(number(0), "k", NamedExpression.newExprId(), key.qualifier(),
                    scala.Option.empty(), seq(List.<String>of()));
            List<NamedExpression> shown = new ArrayList<>(CollectionConverters.asJava(scan.output()));
            shown.replaceAll(one -> one.exprId().equals(key.exprId()) ? zero : one);
            return new Project(seq(shown), scan);
        }
    }

    private static final class Checks extends Rule<LogicalPlan> {
        @Override
        public LogicalPlan apply(LogicalPlan plan) {
            if (plan instanceof Command) seen.add(plan.nodeName());
            for (LogicalPlan leaf : CollectionConverters.asJava(plan.collectLeaves())) {
                if (leaf instanceof LogicalRelation scan && scan.catalogTable().isDefined()) {
                    seen.add("read " + scan.catalogTable().get().identifier().table());
                }
                if (says("authorizer.deny", leaf)) {
                    throw new SecurityException("Permission denied: user [me] does not have [select] privilege on [default/secret]");
                }
            }
            return plan;
        }
    }
}
