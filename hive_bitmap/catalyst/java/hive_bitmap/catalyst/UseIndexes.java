package hive_bitmap.catalyst;

import hive_bitmap.catalyst.queries.Existence;
import hive_bitmap.catalyst.queries.Helper;
import hive_bitmap.catalyst.queries.IndexedColumns;
import hive_bitmap.catalyst.queries.Inference;
import hive_bitmap.catalyst.queries.Joins;
import hive_bitmap.catalyst.queries.Planner;
import hive_bitmap.catalyst.queries.Question;
import hive_bitmap.catalyst.queries.Reports;
import hive_bitmap.catalyst.queries.Scan;
import hive_bitmap.catalyst.queries.Settings;
import hive_bitmap.catalyst.queries.TooSmall;
import hive_bitmap.catalyst.spark.Conditions;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.internal.SQLConf;

/**
 * The optimizer rule: it replaces scans of indexed tables, and aggregations over them, as Python decides. It runs before
 * cost-based optimization, when filters are pushed down to the relations and columns are pruned. It leaves all filters over
 * narrowed scans in the plan.
 */
public final class UseIndexes extends Rule<LogicalPlan> {
    private final SparkSession session;

    public UseIndexes(SparkSession session) {
        this.session = session;
    }

    @Override
    public LogicalPlan apply(LogicalPlan plan) {
        if (Planner.isPlanning()) return plan;
        boolean absent = Planner.isAbsent();
        if (absent && (!Helper.isInstalled() || Planner.isOff())) return plan;
        Settings settings = Settings.of(SQLConf.get());
        if (!settings.enabled() && !Reports.areWanted() || plan.isStreaming()) return plan;
        if (Reports.areWanted()) reportCached(plan);
        try {
            List<Scan> scans = new ArrayList<>();
            collect(plan, null, null, scans);
            scans.removeIf(scan -> !Reports.areWanted() && IndexedColumns.areNone(scan.table));
            if (scans.isEmpty()) return plan;
            Inference.add(plan, scans);
            for (Joins.RuntimeFilter filter : Joins.runtimeFilters(plan, scans)) filter.scan().runtimeFilters.add(filter);
            scans.removeIf(scan -> scan.conjuncts.isEmpty() && scan.aggregate == null && scan.runtimeFilters.isEmpty());
            scans.removeIf(Scan::asksForFiles);
            scans.removeIf(scan -> !Reports.areWanted() && (!IndexedColumns.mayServe(scan) || TooSmall.contains(scan)));
            if (scans.isEmpty() || asksForFiles(plan)) return plan;
            if (absent) {
                Helper.want(session);
                Reports.away();
                return plan;
            }
            Question question = new Question(session, scans);
            Planner.ask(session, question, settings);
            Reports.add(question.reports);
            return question.replaced(plan);
        } catch (RuntimeException | LinkageError e) {
            if (settings.strict()) throw e;
            if (Planner.isAbsent() || Planner.isServedByHelper() && Helper.hasDied()) Reports.away();
            else Reports.failed(e);
            return plan;
        }
    }

    /** Reports each relation that the session has cached as left alone. */
    private static void reportCached(LogicalPlan plan) {
        for (LogicalPlan leaf : Scala.list(plan.collectLeaves())) {
            if (!(leaf instanceof InMemoryRelation cached)) continue;
            scala.Option<String> name = cached.cacheBuilder().tableName();
            Reports.add(List.of(Planner.report(name.isEmpty() ? "" : name.get(), "cached", "its rows are in the session's cache")));
        }
    }

    /** Whether a query uses InputFileName and the like, which depend on how Spark itself splits files. */
    private static boolean asksForFiles(LogicalPlan plan) {
        return plan.exists(Scala.predicate(node -> Scala.list(node.expressions()).stream().anyMatch(expression ->
                expression.exists(Scala.predicate(one -> one.getClass().getSimpleName().startsWith("InputFile"))))));
    }

    /**
     * Adds the scans below {@code plan} to {@code found}. {@code required} are the columns that are needed of it (null:
     * all); {@code aggregate} is the aggregation above it if there are only filters and projections in between.
     */
    private static void collect(LogicalPlan plan, AttributeSet required, Aggregate aggregate, List<Scan> found) {
        if (Scan.isIndexable(plan)) {
            found.add(new Scan(plan, List.of(), required, aggregate));
        } else if (plan instanceof Filter filter && Scan.isIndexable(filter.child())) {
            AttributeSet all = required == null ? null : required.$plus$plus(filter.references());
            List<Expression> conjuncts = Conditions.conjuncts(filter.condition());
            found.add(new Scan(filter.child(), conjuncts, all, aggregate));
        } else if (plan instanceof Filter filter) {
            collect(filter.child(), required == null ? null : required.$plus$plus(filter.references()), aggregate, found);
        } else if (plan instanceof Project project) {
            collect(project.child(), project.references(), aggregate, found);
        } else if (Existence.of(plan) instanceof Existence existence) {
            int before = found.size();
            collect(existence.rows(), null, existence.count(), found);
            for (Scan scan : found.subList(before, found.size())) {
                if (scan.aggregate == existence.count()) scan.existence = existence;
            }
        } else if (plan instanceof Aggregate over) {
            collect(over.child(), over.references(), over, found);
        } else {
            for (LogicalPlan child : Scala.list(plan.children())) collect(child, null, null, found);
        }
    }
}
