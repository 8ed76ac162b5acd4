package hive_bitmap.catalyst;

import hive_bitmap.catalyst.observing.Application;
import hive_bitmap.catalyst.python.Failures;
import hive_bitmap.catalyst.python.Helper;
import hive_bitmap.catalyst.python.PythonCalls;
import hive_bitmap.catalyst.python.Reports;
import hive_bitmap.catalyst.python.Settings;
import hive_bitmap.catalyst.python.Verdicts;
import hive_bitmap.catalyst.queries.Aggregates;
import hive_bitmap.catalyst.queries.ChosenStrategy;
import hive_bitmap.catalyst.queries.Existence;
import hive_bitmap.catalyst.queries.Inference;
import hive_bitmap.catalyst.queries.Joins;
import hive_bitmap.catalyst.queries.NarrowedRelations;
import hive_bitmap.catalyst.queries.Question;
import hive_bitmap.catalyst.queries.Repeated;
import hive_bitmap.catalyst.queries.Scan;
import hive_bitmap.catalyst.reading.WrittenFolders;
import hive_bitmap.catalyst.spark.Conditions;
import hive_bitmap.catalyst.spark.Expressions;
import hive_bitmap.catalyst.spark.FirstRows;
import hive_bitmap.catalyst.spark.RowOrder;
import hive_bitmap.catalyst.spark.Scala;
import hive_bitmap.catalyst.spark.SideQuery;
import hive_bitmap.catalyst.spark.TopGroups;
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
 * The optimizer rule. It replaces scans of indexed tables, and aggregations over them, as Python decides. It runs before cost-based
 * optimization, when filters have been pushed down to the relations and columns have been pruned. All filters over narrowed scans
 * stay in the plan.
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
            collect(plan, null, !isCorrelated(plan), RowOrder.of(plan), null, null, scans);
            LogicalPlan pruned = NarrowedRelations.pruned(plan, scans);
            if (pruned != plan) {
                plan = pruned;
                scans.clear();
                collect(plan, null, !isCorrelated(plan), RowOrder.of(plan), null, null, scans);
            }
            if (chosenOnly) scans.removeIf(scan -> ChosenStrategy.of(scan) == null);
            if (!Reports.areOfRepeatedPlan()) observe(scans);
            leaveAlone(scans, "no_index", scan -> !Reports.areWanted() && Verdicts.hasNoIndex(scan.table.identifier()));
            Repeated.remove(scans, plan);
            leaveAlone(scans, "positions", UseIndexes::dependsOnPositions);
            if (scans.isEmpty()) return plan;
            Inference.add(plan, scans);
            Joins.addRuntimeFilters(plan, scans);
            for (FirstRows.Of first : FirstRows.in(plan)) scans.forEach(scan -> scan.takeFirstRows(first));
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

    /** Has the application observe the scans. A failure is only logged, so that the query does not fail. */
    private void observe(List<Scan> scans) {
        try {
            for (Scan scan : scans) {
                List<List<String>> keySets = Aggregates.keySets(scan);
                scan.observeFor(application, keySets, Aggregates.sums(scan), Aggregates.expressions(scan, keySets));
            }
        } catch (Exception | LinkageError e) {
            LOG.debug("a query is not observed: {}", e.toString());
        }
    }

    /**
     * Leaves the scans that satisfy a condition alone, and removes them from {@code scans}. {@code reason} is the code of the
     * reason.
     */
    private static void leaveAlone(List<Scan> scans, String reason, Predicate<Scan> isLeftAlone) {
        scans.removeIf(scan -> {
            if (!isLeftAlone.test(scan)) return false;
            scan.leaveAlone(reason);
            return true;
        });
    }

    /** Removes from {@code scans} those that Python left alone before, if the reason still holds. */
    private static void leaveAloneAgain(List<Scan> scans, Question question) {
        scans.removeIf(scan -> {
            String reason = ChosenStrategy.mustPay(scan) ? scan.verdict() : null;
            if (reason == null) return false;
            scan.leaveAlone(reason);
            question.leaveAlone(scan);
            return true;
        });
    }

    /** Reports each cached relation of the session as left alone. */
    private static void reportCached(LogicalPlan plan) {
        for (LogicalPlan leaf : Scala.list(plan.collectLeaves())) {
            if (!(leaf instanceof InMemoryRelation cached)) continue;
            scala.Option<String> name = cached.cacheBuilder().tableName();
            Reports.add(List.of(Reports.leftAlone(name.isEmpty() ? "" : name.get(), "cached", "its rows are in the session's cache")));
        }
    }

    /** Returns whether a query depends on the positions of a scan's rows; the scan is then reported as left alone. */
    private static boolean dependsOnPositions(Scan scan) {
        if (!NarrowedRelations.losesPositions(scan)) return false;
        String why = "a sample, rand() or a function like it, above the scan or in cached data, depends on the positions of rows";
        Reports.add(List.of(Reports.leftAlone(scan.table.identifier().unquotedString(), "positions", why)));
        return true;
    }

    /** Returns whether a query depends on how Spark splits files, as with {@code input_file_name()}. */
    private static boolean asksForFiles(LogicalPlan plan) {
        return plan.exists(Scala.predicate(node -> Scala.list(node.expressions()).stream().anyMatch(expression ->
                expression.exists(Scala.predicate(Conditions::isInputFile)))));
    }

    /**
     * Returns whether a plan belongs to a correlated subquery. Spark optimizes such a plan by itself and then makes it a join, in a
     * way that depends on the aggregation in the plan: COUNT of no rows is 0 where a join has NULL.
     */
    private static boolean isCorrelated(LogicalPlan plan) {
        return plan instanceof Subquery subquery && subquery.correlated();
    }

    /**
     * Adds the scans below a plan to {@code scans}.
     *
     * @param required the columns of {@code plan} that the query needs (null: all)
     * @param answers whether an aggregation may be replaced by its answer from an index
     * @param seen how the query depends on the order of the plan's rows
     * @param limit the number of rows of {@code plan} after which Spark stops reading (null: it reads all)
     * @param above the groups of an aggregation that a limit above needs (null: there is no such limit)
     */
    private static void collect(
            LogicalPlan plan, AttributeSet required, boolean answers, RowOrder seen, Integer limit, TopGroups.Of above,
            List<Scan> scans) {
        TopGroups.Of top = plan instanceof LocalLimit ? TopGroups.below(plan) : above;
        Existence existence = answers ? Existence.of(plan) : null;
        Scan scan = existence != null ? Scan.below(existence.count())
                : answers && plan instanceof Aggregate aggregate && seen.allowsAnswer(aggregate) ? Scan.below(aggregate) : Scan.of(plan, required);
        if (scan != null) {
            scan.existence = existence;
            scan.limit = existence != null ? Integer.valueOf(1) : scan.aggregate != null ? null : limit;
            scan.takeGroups(top);
            scan.order = seen.at(scan.relation, plan);
            scans.add(scan);
        } else if (plan instanceof Filter filter) {
            collect(filter.child(), required == null ? null : required.$plus$plus(filter.references()), answers, seen.below(plan), null, top, scans);
        } else if (plan instanceof Project || plan instanceof Aggregate) {
            Integer childLimit = plan instanceof Project ? limit : null;
            collect(Scala.list(plan.children()).get(0), plan.references(), answers, seen.below(plan), childLimit, top, scans);
        } else {
            Integer childLimit = plan instanceof LocalLimit local ? Expressions.integer(local.limitExpr()) : null;
            for (LogicalPlan child : Scala.list(plan.children())) collect(child, null, answers, seen.below(plan), childLimit, top, scans);
        }
    }
}
