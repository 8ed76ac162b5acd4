package hive_bitmap.catalyst.queries;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import hive_bitmap.catalyst.fetching.Comparing;
import hive_bitmap.catalyst.observing.Observation;
import hive_bitmap.catalyst.python.Caller;
import hive_bitmap.catalyst.python.Failures;
import hive_bitmap.catalyst.python.IndexedColumns;
import hive_bitmap.catalyst.python.LatePlans;
import hive_bitmap.catalyst.python.Patience;
import hive_bitmap.catalyst.python.PlanningSlots;
import hive_bitmap.catalyst.python.PythonCalls;
import hive_bitmap.catalyst.python.PythonRequest;
import hive_bitmap.catalyst.python.Reports;
import hive_bitmap.catalyst.python.SameQuestions;
import hive_bitmap.catalyst.python.Settings;
import hive_bitmap.catalyst.python.Versions;
import hive_bitmap.catalyst.reading.Listing;
import hive_bitmap.catalyst.spark.Conditions;
import hive_bitmap.catalyst.spark.Expressions;
import hive_bitmap.catalyst.spark.RowOrder;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import scala.Option;

/**
 * The request to Python to decide on the scans of a query. Python reads {@link #text} and replies with an {@link Outcome} for each
 * scan. What it may ask meanwhile are {@link #listing}s, {@link #satisfying} keys, and a small side that is {@link #readFirst}.
 */
public final class Question extends PythonRequest {
    private static final Versions<CatalogTable> TABLES = new Versions<>(1024);

    private final List<Scan> scans;
    private final Map<LogicalPlan, LogicalPlan> replacements = new IdentityHashMap<>();
    private final Map<LogicalPlan, List<InternalRow>> smallSides = new IdentityHashMap<>();
    private final Map<List<Integer>, LogicalPlan> rows = new ConcurrentHashMap<>(); // by scan and part
    private final long indexes = IndexedColumns.version();
    private volatile List<Outcome> outcomes = List.of();
    private ObjectNode written;
    private volatile String reply;
    private volatile boolean closed;
    private volatile Exception unlisted; // why Spark could not list the files of a scan
    private volatile boolean cut; // Python has ended early, because the call was late

    public Question(SparkSession session, List<Scan> scans) {
        super(session);
        this.scans = scans;
    }

    /**
     * Has Python answer. Answers after {@code hive_bitmap.planning_seconds}, as {@link Patience} counts them, are ignored, unless
     * the session is strict, or a scan need not pay. Throws IllegalStateException if Python fails.
     */
    public void ask(Settings settings) {
        boolean waits = settings.strict() || !scans.stream().allMatch(ChosenStrategy::mustPay);
        if (!waits && settings.planningSeconds() <= 0) {
            late(settings.planningSeconds(), 0);
            return;
        }
        double wait = waits ? 0 : LatePlans.wait(shape());
        if (wait > 0) {
            late(settings.planningSeconds(), wait);
            return;
        }
        if (waits) {
            ask(settings, true);
            return;
        }
        String same = textForAll();
        try {
            SameQuestions.Asked asked = same == null ? null : SameQuestions.ask(same, session.sparkContext(), settings.planningSeconds());
            if (asked == null) {
                askInSlot(settings);
            } else if (asked.isFirst()) {
                askForAll(settings, same);
            } else if (asked.reply() == null || !takes(asked.reply())) {
                askInSlot(settings);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            keep(null);
        }
    }

    private void askForAll(Settings settings, String same) throws InterruptedException {
        try {
            askInSlot(settings);
        } finally {
            SameQuestions.replied(same, reply);
        }
    }

    private void askInSlot(Settings settings) throws InterruptedException {
        if (!PlanningSlots.acquire(session.sparkContext())) {
            busy();
            return;
        }
        long started = System.nanoTime();
        try {
            ask(settings, false);
        } finally {
            PlanningSlots.release((System.nanoTime() - started) / 1e9);
        }
    }

    /**
     * Returns what the reply depends on, so that queries that ask it at the same time may have one reply: all but the session. Null
     * if the reply is for this query alone, as it depends on files that are listed, on rows that are read, or on expressions that
     * are evaluated meanwhile: their text does not tell their time zone, nor their evaluation mode.
     */
    private String textForAll() {
        if (scans.stream().anyMatch(scan -> !scan.isListedBySpark() || !scan.runtimeFilters.isEmpty())) return null;
        ObjectNode asked = keep(written()).deepCopy();
        if (scans.stream().anyMatch(scan -> !scan.leaves.isEmpty())) return null;
        asked.remove("session");
        return asked.toString();
    }

    /** Takes the reply to the same question of another query, unless that has rows of the other's session. */
    private boolean takes(String other) {
        if (Outcome.all(other).stream().anyMatch(IndexScan::areOfSession)) return false;
        answered(other);
        apply(outcomes);
        return true;
    }

    private void ask(Settings settings, boolean waits) {
        boolean crowded = PlanningSlots.areCrowded();
        PythonCalls.Planning asked;
        try {
            asked = PythonCalls.plan(session, this);
        } catch (RejectedExecutionException e) {
            busy();
            return;
        }
        try {
            if (waits) asked.result().get();
            else Patience.await(asked.result(), session.sparkContext(), settings.planningSeconds());
            apply(outcomes);
        } catch (TimeoutException e) {
            late(settings.planningSeconds(), LatePlans.add(shape(), crowded || PlanningSlots.areCrowded()));
            close();
            asked.cancelJobs();
        } catch (InterruptedException e) {
            close();
            asked.cancelJobs();
            asked.result().cancel(true);
            Thread.currentThread().interrupt();
        } catch (ExecutionException | CancellationException e) {
            if (unlisted != null) throw Failures.<RuntimeException>unchecked(unlisted);
            throw new IllegalStateException(e.getCause() == null ? e : e.getCause());
        }
    }

    private void busy() {
        Reports.busy();
        scans.forEach(scan -> scan.leaveAlone("away"));
    }

    private void late(double seconds, double wait) {
        Reports.late(seconds, wait);
        scans.forEach(scan -> scan.leaveAlone("late"));
    }

    /** Says to Python that its answer is not waited for any longer. */
    private void close() {
        closed = true;
    }

    /** Whether the answer is not waited for. Called by Python when Spark fails, as it does when the jobs of a late call are cancelled. */
    @Override
    public boolean isLate() {
        cut |= closed;
        return closed;
    }

    /** Called when Python has answered, in time or not. What it says of tables is kept in any case. */
    @Override
    protected void answered(Object reply) {
        if (reply != null) {
            outcomes = Outcome.all((String) reply);
            this.reply = (String) reply;
        }
        for (int scan = 0; scan < outcomes.size(); scan++) {
            List<String> columns = outcomes.get(scan).indexedColumns();
            if (columns != null) IndexedColumns.add(scans.get(scan).table.identifier(), columns, indexes);
            remember(scans.get(scan), outcomes.get(scan));
        }
        if (closed && !cut) LatePlans.ended(shape());
    }

    private void remember(Scan scan, Outcome outcome) {
        String lasting = outcome.lasting();
        if (!lasting.isEmpty()) LeftAlone.add(scan, outcome.reason(), lasting.equals("table"), indexes);
    }

    /** Takes a scan that is left alone without a question; partitions that were listed to know that are not listed again. */
    public void leaveAlone(Scan scan) {
        if (scan.isListed()) replacements.put(scan.relation, NarrowedRelations.listed(scan));
    }

    private List<Shape> shape() {
        return scans.stream().map(Shape::of).toList();
    }

    /**
     * Returns the protocol, the session, its user, the version of its settings, how many tasks run at once, and an object for each
     * scan, as JSON; for the scans' fields see {@code Scan} in hive_bitmap/spark/catalyst/scans.py.
     */
    @Override
    public String text() {
        return fields().toString();
    }

    /** Keeps the question while it is asked, so that it is not written again for Python; null: no longer. */
    private synchronized ObjectNode keep(ObjectNode question) {
        written = question;
        return question;
    }

    private synchronized ObjectNode fields() {
        return written == null ? written() : written;
    }

    private ObjectNode written() {
        ObjectNode question = JsonNodeFactory.instance.objectNode();
        question.put("protocol", PROTOCOL).put("session", sessionName()).put("user", Caller.current().who());
        question.put("settings", settingsVersion()).put("cores", cores());
        ArrayNode all = question.putArray("scans");
        for (Scan scan : scans) {
            ObjectNode one = all.addObject();
            one.put("database", scan.table.database()).put("table", scan.table.identifier().table());
            one.put("version", TABLES.of(scan.described()));
            one.put("condition", String.join(" AND ", scan.conjuncts.stream().map(Expressions::shown).toList()));
            scan.leaves.clear();
            one.set("tree", new Conditions(scan.all(), scan.leaves).tree(scan.conjunctsOfRows()));
            ArrayNode columns = one.putArray("columns");
            for (Attribute column : scan.columns) columns.add(column.name());
            one.put("indexed_known", IndexedColumns.areKnown(scan.table));
            one.put("native", NarrowedRelations.reads(scan)).put("ordered", scan.order != RowOrder.UNSEEN);
            ArrayNode options = one.putArray("options");
            for (String option : scan.optionsOfQuery()) options.add(option);
            if (scan.isListedBySpark()) one.put("listing_summary", listingSummary(scans.indexOf(scan)));
            ArrayNode filters = one.putArray("runtime_filters");
            for (RuntimeFilter filter : scan.runtimeFilters) filters.add(filter.column().name());
            if (scan.aggregate != null) Aggregates.describe(scan, one.putObject("aggregate"));
            ChosenStrategy chosen = ChosenStrategy.of(scan);
            if (chosen != null && !chosen.strategy().isEmpty()) one.put("strategy", chosen.strategy());
            if (!ChosenStrategy.mustPay(scan)) one.put("must_pay", false);
            if (scan.limit != null) one.put("limit", scan.limit);
        }
        return question;
    }

    /**
     * Executes the small side of a runtime filter of a scan and returns the filter's condition as JSON, as
     * {@link Conditions} writes it; null if it has too many rows.
     */
    public String readFirst(int scan, int filter) {
        Scan one = scans.get(scan);
        requireInTime();
        RuntimeFilter wanted = one.runtimeFilters.get(filter);
        List<InternalRow> rows = smallSides.computeIfAbsent(wanted.small(), small -> Joins.read(session, small));
        if (rows == null) return null;
        one.readFirst.put(wanted.small(), rows);
        return new Conditions(one.all(), one.leaves).tree(List.of(Joins.condition(wanted, rows))).toString();
    }

    private void requireInTime() {
        if (isLate()) throw new CancellationException("planning is late, so its answer is not waited for");
    }

    /** Returns the table of a scan. */
    public CatalogTable table(int scan) {
        return scans.get(scan).described();
    }

    /** Returns bytes, number, fingerprint and {@link Scan#splitBytes} of a scan's files, separated by blanks; null if Spark does not tell them. */
    public String listingSummary(int scan) {
        Listing listing = listed(scans.get(scan));
        if (listing == null) return null;
        return listing.bytes() + " " + listing.files.size() + " " + listing.fingerprint() + " " + scans.get(scan).splitBytes();
    }

    /** Lists the files of a scan for Python, which would report an error of Spark's, such as that of a metastore, as its own. */
    private Listing listed(Scan scan) {
        try {
            return scan.listing();
        } catch (Exception e) {
            unlisted = e;
            throw e;
        }
    }

    /** Returns the text of the listing of a scan; a StringBuilder, so that Python can fetch it in pieces. */
    public StringBuilder listing(int scan) {
        return new StringBuilder(scans.get(scan).listing().text());
    }

    @Override
    public String kind() {
        return "plan";
    }

    @Override
    protected StringBuilder deleted(int scan, List<Integer> numbers) {
        return scans.get(scan).deleted(numbers);
    }

    @Override
    protected Expression expression(int scan, int number) {
        requireInTime();
        return scans.get(scan).leaves.get(number);
    }

    /** Takes the rows of a part that tasks of Python's are to read: a DataFrame with the columns that the scan needs. */
    public void rows(int scan, int part, Dataset<Row> frame) {
        rows.put(List.of(scan, part), frame.queryExecution().optimizedPlan());
    }

    private void apply(List<Outcome> outcomes) {
        List<String> reports = new ArrayList<>();
        for (int scan = 0; scan < outcomes.size(); scan++) {
            apply(scan, outcomes.get(scan));
            observe(scans.get(scan).observation, outcomes.get(scan));
            reports.add(outcomes.get(scan).report());
        }
        Reports.add(reports);
    }

    private void apply(int number, Outcome outcome) {
        Scan scan = scans.get(number);
        switch (outcome.kind()) {
            case "leave alone" -> leaveAlone(scan);
            case "empty" -> put(scan, new LocalRelation(scan.relation.output(), Scala.seq(List.of()), false, scala.Option.empty()));
            case "read choices" -> put(scan, NarrowedRelations.narrowed(scan, outcome.text("choices"), outcome.narrowing()));
            case "read rows" -> put(scan, IndexScan.of(scan, IndexScan.rows(session, scan, outcome, part -> rows.get(List.of(number, part))), outcome, isOutdated(scan, outcome)));
            case "counts" -> {
                LogicalPlan answer = IndexAnswer.of(scan, outcome.text("answer"), outcome.text("label"));
                if (scan.existence == null) replace(scan, scan.aggregate, answer);
                else replace(scan, scan.existence.plan(), scan.existence.from(answer));
            }
            default -> throw new IllegalStateException("not an outcome: " + outcome.kind());
        }
    }

    /**
     * Returns what says later whether Spark would read other files of a scan by then. If Spark has not listed the files, Python
     * has, and lists them again. Python also looks again at files that its tasks open, which Spark may have listed long ago.
     */
    private BooleanSupplier isOutdated(Scan scan, Outcome outcome) {
        Listing listing = scan.listing();
        SparkSession asked = session; // a plan must not keep the question
        String files = outcome.fields().path("files").asText(null);
        return () -> (listing != null && listing.isOutdated()) || (files != null && !new Comparing(asked, files).areCurrent());
    }

    private static void observe(Observation scan, Outcome outcome) {
        switch (outcome.kind()) {
            case "leave alone" -> scan.leftAlone(outcome.reason());
            case "empty" -> scan.emptied();
            case "counts" -> scan.answered(outcome.indexes(), outcome.bytesSaved());
            default -> scan.narrowed(outcome.indexes(), outcome.bytesSaved());
        }
    }

    private void put(Scan scan, LogicalPlan narrowed) {
        replace(scan, scan.relation, narrowed);
    }

    /** Replaces what depends on a scan, and the small sides of its runtime filters by the rows that were read of them. */
    private void replace(Scan scan, LogicalPlan plan, LogicalPlan by) {
        replacements.put(plan, by);
        RowOrder.keep(plan, by);
        scan.readFirst.forEach((small, rows) -> replacements.put(
                small, new LocalRelation(small.output(), Scala.seq(rows), false, scala.Option.empty())));
    }

    /** Returns the plan with its scans replaced. Nodes are compared by identity: equal scans may have different filters. */
    public LogicalPlan replaced(LogicalPlan plan) {
        if (replacements.isEmpty()) return plan;
        return (LogicalPlan) plan.transformDownWithSubqueries(Scala.replacing(replacements::get));
    }
}
