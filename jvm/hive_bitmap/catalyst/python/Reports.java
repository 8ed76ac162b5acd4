package hive_bitmap.catalyst.python;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Collects the decisions on scans, as JSON objects, while this thread explains a query. */
public final class Reports {
    private static final Logger LOG = LoggerFactory.getLogger("hive_bitmap");
    private static final String LEFT_ALONE = "left alone"; // as in hive_bitmap/spark/catalyst/decision.py
    private static volatile String lastFailure = "";
    private static final ThreadLocal<List<String>> WANTED = new ThreadLocal<>();
    private static final ThreadLocal<Boolean> REPEATED = ThreadLocal.withInitial(() -> false);

    private Reports() {}

    /** Returns whether this thread collects reports. */
    public static boolean areWanted() {
        return WANTED.get() != null;
    }

    /** Returns whether this thread plans a DataFrame again, just to explain it. */
    public static boolean areOfRepeatedPlan() {
        return REPEATED.get();
    }

    /** Logs reports; also keeps them if this thread collects reports. */
    public static void add(List<String> reports) {
        reports.forEach(LOG::debug);
        if (areWanted()) WANTED.get().addAll(reports);
    }

    /** Reports an error. If it is the same as the last one, it is logged at debug level only. */
    public static void failed(Throwable error) {
        String detail = sentence(error);
        if (!detail.equals(lastFailure)) LOG.warn("indexes are not used, the query is Spark's own: {}", detail);
        else LOG.debug("indexes are not used, the query is Spark's own: {}", detail);
        lastFailure = detail;
        if (areWanted()) WANTED.get().add(leftAlone("", "error", detail));
    }

    /**
     * Returns a sentence about an error. For an error from Python it is the last line of the traceback, without the name of the
     * error class if that is one of hive_bitmap's own.
     */
    private static String sentence(Throwable error) {
        Throwable cause = error;
        while (cause.getCause() != null && cause.getCause() != cause) cause = cause.getCause();
        String text = String.valueOf(cause.getMessage() == null ? cause.toString() : cause.getMessage()).strip();
        if (!text.contains("Traceback (most recent call last)")) return cause == error ? error.toString() : cause.toString();
        String last = text.substring(text.lastIndexOf('\n') + 1).strip();
        return last.replaceFirst("^hive_bitmap\\.errors\\.\\w+: ", "");
    }

    /** Reports that no Python process answers. */
    public static void away() {
        String detail = "the Python process that decides is starting or has ended";
        LOG.debug("indexes are not used, the query is Spark's own: {}", detail);
        if (areWanted()) WANTED.get().add(leftAlone("", "away", detail));
    }

    /** Reports that Python makes as many plans as it can. */
    public static void busy() {
        String detail = "the Python process that decides is busy with the plans of other queries";
        LOG.debug("indexes are not used, the query is Spark's own: {}", detail);
        if (areWanted()) WANTED.get().add(leftAlone("", "away", detail));
    }

    /** Reports that planning took longer than {@code seconds}, and is tried again after {@code wait} seconds. */
    public static void late(double seconds, double wait) {
        String again = wait <= 0 ? "" : String.format("; it is tried again in %.0f s, or when a setting is changed", Math.ceil(wait));
        String detail = "planning took longer than " + seconds + " s" + again;
        LOG.warn("indexes are not used, the query is Spark's own: {}", detail);
        if (areWanted()) WANTED.get().add(leftAlone("", "late", detail));
    }

    /** Returns the report of a scan that is left alone. {@code table} is "" if the whole query is left alone. */
    public static String leftAlone(String table, String reason, String detail) {
        return JsonNodeFactory.instance.objectNode()
                .put("table", table).put("action", LEFT_ALONE).put("reason", reason).put("detail", detail).toString();
    }

    /** Plans a DataFrame again and returns the reports of all its scans. */
    public static List<String> of(org.apache.spark.sql.classic.Dataset<?> frame) {
        REPEATED.set(true);
        try {
            return of(frame.sparkSession().sessionState().executePlan(frame.queryExecution().analyzed(),
                    org.apache.spark.sql.execution.CommandExecutionMode.SKIP()));
        } finally {
            REPEATED.remove();
        }
    }

    /**
     * Plans a DataFrame again and explains this plan. Returns a JSON object with the {@code reports} of all scans, Spark's EXPLAIN
     * of the same plan ({@code engine}), and the {@code folders} that the DataFrame reads by path.
     */
    public static String explained(org.apache.spark.sql.classic.Dataset<?> frame, String mode) {
        REPEATED.set(true);
        try {
            org.apache.spark.sql.execution.QueryExecution execution = frame.sparkSession().sessionState().executePlan(
                    frame.queryExecution().analyzed(), org.apache.spark.sql.execution.CommandExecutionMode.SKIP());
            ObjectNode explained = JsonNodeFactory.instance.objectNode();
            ArrayNode reports = explained.putArray("reports");
            for (String report : of(execution)) reports.addRawValue(new RawValue(report));
            ArrayNode folders = explained.putArray("folders");
            for (LogicalPlan leaf : Scala.list(execution.optimizedPlan().collectLeaves())) {
                if (leaf instanceof LogicalRelation relation && relation.catalogTable().isEmpty()
                        && relation.relation() instanceof HadoopFsRelation files) {
                    for (Path path : Scala.list(files.location().rootPaths())) folders.add(path.toString());
                }
            }
            explained.put("engine", execution.explainString(org.apache.spark.sql.execution.ExplainMode.fromString(mode)));
            return explained.toString();
        } finally {
            REPEATED.remove();
        }
    }

    /**
     * Plans a DataFrame for the first time and returns the reports of all its scans. The DataFrame will be executed by this plan.
     */
    public static List<String> ofFirstPlan(org.apache.spark.sql.classic.Dataset<?> frame) {
        return of(frame.queryExecution());
    }

    private static List<String> of(org.apache.spark.sql.execution.QueryExecution execution) {
        List<String> reports = new ArrayList<>();
        WANTED.set(reports);
        try {
            execution.optimizedPlan();
        } finally {
            WANTED.remove();
        }
        return reports;
    }
}
