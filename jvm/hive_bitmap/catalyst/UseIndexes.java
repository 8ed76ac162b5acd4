package hive_bitmap.catalyst;

import hive_bitmap.catalyst.observing.Application;
import hive_bitmap.catalyst.python.Failures;
import hive_bitmap.catalyst.python.Helper;
import hive_bitmap.catalyst.python.IndexedColumns;
import hive_bitmap.catalyst.python.PythonCalls;
import hive_bitmap.catalyst.python.Reports;
import hive_bitmap.catalyst.python.Settings;
import hive_bitmap.catalyst.queries.Aggregates;
import hive_bitmap.catalyst.queries.ChosenStrategy;
import hive_bitmap.catalyst.queries.Existence;
import hive_bitmap.catalyst.queries.Inference;
import hive_bitmap.catalyst.queries.Joins;
import hive_bitmap.catalyst.queries.LeftAlone;
import hive_bitmap.catalyst.queries.NarrowedRelations;
import hive_bitmap.catalyst.queries.Question;
import hive_bitmap.catalyst.queries.Repeated;
import hive_bitmap.catalyst.queries.Scan;
import hive_bitmap.catalyst.reading.WrittenFolders;
import hive_bitmap.catalyst.spark.Conditions;
import hive_bitmap.catalyst.spark.Expressions;
import hive_bitmap.catalyst.spark.RowOrder;
import hive_bitmap.catalyst.spark.Scala;
import hive_bitmap.catalyst.spark.SideQuery;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Subquery;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.internal.SQLConf;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The optimizer rule: it replaces scans of indexed tables, and aggregations over them, as Python decides. It runs before
 * cost-based optimization, when filters are pushed down to the relations and columns are pruned. It leaves all filters over
 * narrowed scans in the plan.
 */
public final class UseIndexes extends Rule<LogicalPlan> {
    private static final Logger LOG = LoggerFactory.getLogger("hive_bitmap");

    private final SparkSession session;
    private final Application application;

    public UseIndexes(SparkSession session) {
        this.session = session;
        this.application = Application.of(session.sparkContext());
    }

    @Override
    public LogicalPlan apply(LogicalPlan plan) {
        if (SideQuery.isRunning()) return plan;
        WrittenFolders.note(plan);
        boolean chosenOnly = PythonCalls.isForChosen();
        boolean absent = !chosenOnly && PythonCalls.isAbsent();
        if (absent && (!Helper.isInstalled() || PythonCalls.isOff())) return plan;
        Settings settings = Settings.of(SQLConf.get());
        if (!settings.enabled() && !Reports.areWanted() || plan.isStreaming()) return plan;
        if (Reports.areWanted()) reportCached(plan);
        List<Scan> scans = new ArrayList<>();
        try {
            plan = RowOrder.restored(plan);
            collect(plan, null, !isCorrelated(plan), RowOrder.of(plan), null, scans);
            if (chosenOnly) scans.removeIf(scan -> ChosenStrategy.of(scan) == null);
            if (!Reports.areOfRepeatedPlan()) observe(scans);
            leaveAlone(scans, "no_index", scan -> !Reports.areWanted() && IndexedColumns.areNone(scan.table));
            Repeated.remove(scans, plan);
            leaveAlone(scans, "positions", UseIndexes::areRowsPlaced);
            if (scans.isEmpty()) return plan;
            Inference.add(plan, scans);
            Joins.addRuntimeFilters(plan, scans);
            leaveAlone(scans, "not_tested", scan -> scan.asksNothing() && ChosenStrategy.mustPay(scan));
            leaveAlone(scans, "unsupported", Scan::asksForFiles);
            leaveAlone(scans, "not_tested", scan -> !Reports.areWanted() && !scan.mayUseIndexes());
            leaveAlone(scans, "not_tested", Aggregates::isIcebergs);
            leaveAlone(scans, "unsupported", Scan::isOfUnknownLake);
            if (asksForFiles(plan)) leaveAlone(scans, "unsupported", scan -> true);
            Question question = new Question(session, scans);
            if (!Reports.areWanted()) leaveAloneAgain(scans, question);
            if (scans.isEmpty()) return question.replaced(plan);
            if (absent) {
                Helper.want(session);
                Reports.away();
                leaveAlone(scans, "away", scan -> true);
                return plan;
            }
            question.ask(settings);
            return question.replaced(plan);
        } catch (Exception | LinkageError e) {
            Failures.goOn(e);
            leaveAlone(scans, "error", scan -> true);
            return plan;
        }
    }

    /** Has the application observe the scans. That never fails a query. */
    private void observe(List<Scan> scans) {
        try {
            for (Scan scan : scans) scan.observeFor(application, Aggregates.keySets(scan));
        } catch (Exception | LinkageError e) {
            LOG.debug("a query is not observed: {}", e.toString());
        }
    }

    /** Removes the scans that are left to Spark, for the reason with this code. */
    private static void leaveAlone(List<Scan> scans, String reason, Predicate<Scan> isLeft) {
        scans.removeIf(scan -> {
            if (!isLeft.test(scan)) return false;
            scan.leaveAlone(reason);
            return true;
        });
    }

    /** Removes the scans that Python has left to Spark before, for a reason that still holds. */
    private static void leaveAloneAgain(List<Scan> scans, Question question) {
        scans.removeIf(scan -> {
            String reason = ChosenStrategy.mustPay(scan) ? LeftAlone.reason(scan) : null;
            if (reason == null) return false;
            scan.leaveAlone(reason);
            question.leaveAlone(scan);
            return true;
        });
    }

    /** Reports each relation that the session has cached as left alone. */
    private static void reportCached(LogicalPlan plan) {
        for (LogicalPlan leaf : Scala.list(plan.collectLeaves())) {
            if (!(leaf instanceof InMemoryRelation cached)) continue;
            scala.Option<String> name = cached.cacheBuilder().tableName();
            Reports.add(List.of(Reports.leftAlone(name.isEmpty() ? "" : name.get(), "cached", "its rows are in the session's cache")));
        }
    }

    /** Whether a query depends on which rows of a scan stand where; reports it. */
    private static boolean areRowsPlaced(Scan scan) {
        if (!NarrowedRelations.losesPlaces(scan)) return false;
        String why = "a sample, rand() or a function like it above the scan, or of what is cached, depends on which rows stand where";
        Reports.add(List.of(Reports.leftAlone(scan.table.identifier().unquotedString(), "positions", why)));
        return true;
    }

    /** Whether a query depends on how Spark itself splits files. */
    private static boolean asksForFiles(LogicalPlan plan) {
        return plan.exists(Scala.predicate(node -> Scala.list(node.expressions()).stream().anyMatch(expression ->
                expression.exists(Scala.predicate(Conditions::isInputFile)))));
    }

    /**
     * Whether a plan is that of a correlated subquery, which is optimized by itself and then made a join. How Spark does that
     * depends on the aggregation in it: COUNT of no rows is 0, where a join has NULL.
     */
    private static boolean isCorrelated(LogicalPlan plan) {
        return plan instanceof Subquery subquery && subquery.correlated();
    }

    /**
     * Adds the scans below {@code plan}. {@code required} are the columns that are needed of it (null: all). Aggregations are
     * looked at if they may be replaced by their {@code answers}. {@code seen} is what is seen of the order of the plan's rows,
     * {@code limit} after how many of its rows Spark stops reading (null: it does not).
     */
    private static void collect(
            LogicalPlan plan, AttributeSet required, boolean answers, RowOrder seen, Integer limit, List<Scan> scans) {
        Existence existence = answers ? Existence.of(plan) : null;
        Scan scan = existence != null ? Scan.below(existence.count())
                : answers && plan instanceof Aggregate aggregate && seen.allowsAnswer(aggregate) ? Scan.below(aggregate) : Scan.of(plan, required);
        if (scan != null) {
            scan.existence = existence;
            scan.limit = existence != null ? Integer.valueOf(1) : scan.aggregate != null ? null : limit;
            scan.order = seen.at(scan.relation, plan);
            scans.add(scan);
        } else if (plan instanceof Filter filter) {
            collect(filter.child(), required == null ? null : required.$plus$plus(filter.references()), answers, seen.below(plan), null, scans);
        } else if (plan instanceof Project || plan instanceof Aggregate) {
            Integer wanted = plan instanceof Project ? limit : null;
            collect(Scala.list(plan.children()).get(0), plan.references(), answers, seen.below(plan), wanted, scans);
        } else {
            Integer wanted = plan instanceof LocalLimit local ? Expressions.integer(local.limitExpr()) : null;
            for (LogicalPlan child : Scala.list(plan.children())) collect(child, null, answers, seen.below(plan), wanted, scans);
        }
    }
}
